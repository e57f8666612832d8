/**
 * How much of an upload disappears behind CRIU's own work: the same image restored with
 * `parallel` false and true, at a DMA rate at which the upload alone takes as long as CRIU's part.
 * What counts is the window in which an upload can make a restore longer: from the first KFD process
 * asking for its state to the gate being open. Later processes get theirs while contents of earlier
 * ones are on their way. What podman and CRIU do before that differs by more from one time to the next.
 * A machine that others use changes its speed by a quarter within minutes: each round sets its own
 * rate and is judged by itself. It has two restores of each kind, one after each, so that neither a
 * drift nor what the one before left behind favours a kind.
 */

import { attempt, run } from '../e2e/support/command.js';
import type { Container } from '../e2e/support/container.js';
import { setDmaRate } from '../e2e/support/gpu.js';
import { configure } from '../e2e/support/product.js';
import { type LogLine, sessionEnd } from '../e2e/support/session.js';
import { seconds } from './timing.js';

/** Four restores, one after the other: means of two, in seconds. */
interface Round {
  readonly rate_mbps: number;
  /** What CRIU did in the window of the serial ones, without the upload. */
  readonly own_s: number;
  readonly upload_s: number;
  readonly serial_s: number;
  readonly parallel_s: number;
  /**
   * Of a parallel window: CRIU had ended and waited for the upload. The rest is CRIU's: beyond `own_s` it was slower.
   */
  readonly gate_s: number;
  readonly whole_s: { readonly serial: number; readonly parallel: number };
  /** Share of the upload that made the parallel restores no longer: 0 to 1, beyond which is chance. */
  readonly hidden: number;
}

export interface Hiding {
  readonly bytes: number;
  readonly rounds: readonly Round[];
}

function phase(session: LogLine, name: string): number {
  return (session.timings_us?.[name] ?? 0) / 1e6;
}

const window = (session: LogLine) =>
  ['restore_state', 'overlap', 'gate'].reduce((sum, name) => sum + phase(session, name), 0);

async function restore(
  job: Container,
  parallel: boolean,
): Promise<{ took: number; session: LogLine }> {
  configure({ parallel });
  // It does not run before the first restore.
  const killed = await attempt('podman', 'kill', job.name);
  if (killed.status === 0) await run('podman', 'wait', job.name);
  const took = await seconds('podman', 'container', 'restore', '--keep', job.name);
  return { took, session: await sessionEnd(job, 'restore') };
}

const mean = (values: readonly number[]) =>
  values.reduce((sum, value) => sum + value, 0) / values.length;

async function measure(job: Container, rate_mbps: number): Promise<Round> {
  const kind = (isParallel: boolean) => ({
    isParallel,
    took: [] as number[],
    sessions: [] as LogLine[],
  });
  const serial = kind(false);
  const parallel = kind(true);
  for (const one of [serial, parallel, parallel, serial]) {
    const { took, session } = await restore(job, one.isParallel);
    one.took.push(took);
    one.sessions.push(session);
  }
  const serial_s = mean(serial.sessions.map(window));
  const parallel_s = mean(parallel.sessions.map(window));
  const upload_s = mean(serial.sessions.map((session) => phase(session, 'upload')));
  return {
    rate_mbps,
    own_s: serial_s - upload_s,
    upload_s,
    serial_s,
    parallel_s,
    gate_s: mean(parallel.sessions.map((session) => phase(session, 'gate'))),
    whole_s: { serial: mean(serial.took), parallel: mean(parallel.took) },
    hidden: (serial_s - parallel_s) / upload_s,
  };
}

/**
 * Seconds that the bytes alone may take if the upload is to take as long as CRIU's part: it takes longer than they do,
 * for the first of them has to be read and the last is waited for.
 */
function bytesTime({ own_s, upload_s, rate_mbps }: Round, bytes: number): number {
  return Math.max(own_s / 2, own_s - (upload_s - bytes / 1e6 / rate_mbps));
}

/** Of `job`, which was saved in place with `--keep`; it runs afterwards, restored for the last time. */
export async function hiding(job: Container, count: number): Promise<Hiding> {
  try {
    // The first restore touches the machine's memory for the first time, and a pause makes CRIU's part
    // shorter: the second restore, and a round that does not count, lead up to the rate.
    await restore(job, false);
    const { session } = await restore(job, false);
    const bytes = session.content_bytes ?? 0;
    let times = [window(session) - phase(session, 'upload')];
    const rounds: Round[] = [];
    for (let round = 0; round <= count; round++) {
      const rate_mbps = Math.max(1, Math.round(bytes / 1e6 / mean(times.slice(-2))));
      setDmaRate(rate_mbps);
      const measured = await measure(job, rate_mbps);
      if (round === 0) times = [];
      else rounds.push(measured);
      times.push(bytesTime(measured, bytes));
    }
    return { bytes, rounds };
  } finally {
    setDmaRate(0);
    configure({});
  }
}
