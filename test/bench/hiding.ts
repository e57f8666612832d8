/**
 * How much of an upload disappears behind CRIU's own work: the same image restored with
 * `parallel` true and false, at a DMA rate at which the upload alone takes as long as CRIU's part.
 * What counts is the window in which an upload can make a restore longer: from the first KFD process
 * asking for its state to the gate being open. Later processes get theirs while contents of earlier
 * ones are on their way. What podman and CRIU do before that differs by more from one time to the next.
 */

import { attempt, run } from '../e2e/support/command.js';
import type { Container } from '../e2e/support/container.js';
import { configure, setDmaRate } from '../e2e/support/product.js';
import { type LogLine, sessionEnd } from '../e2e/support/session.js';
import { spread } from './stats.js';
import { seconds } from './timing.js';

/** All times in seconds, one for each round. */
export interface Hiding {
  readonly bytes: number;
  readonly rate_mbps: number;
  /** What CRIU did in the window, when the rate was chosen. */
  readonly own_s: number;
  /** The same in the rounds: far from `upload_s`, the machine has changed meanwhile. */
  readonly rounds_own_s: readonly number[];
  readonly serial_s: readonly number[];
  readonly parallel_s: readonly number[];
  readonly whole_s: { readonly serial: readonly number[]; readonly parallel: readonly number[] };
  readonly upload_s: readonly number[];
  /** Share of the upload that made no restore longer: 0 to 1. */
  readonly hidden: number;
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

/**
 * Sets the rate at which an upload takes as long as what CRIU does in the window by itself. The
 * first restore touches the machine's memory for the first time, and a pause before it makes
 * CRIU's part shorter, so it is measured again at the rate that was found.
 */
async function calibrate(job: Container) {
  await restore(job, false);
  let found = { bytes: 0, own_s: 0, rate_mbps: 0 };
  for (const restores of [1, 3]) {
    const owns: number[] = [];
    let bytes = 0;
    for (let i = 0; i < restores; i++) {
      const { session } = await restore(job, false);
      bytes = session.content_bytes ?? 0;
      owns.push(window(session) - phase(session, 'upload'));
    }
    const own_s = spread(owns).median;
    found = { bytes, own_s, rate_mbps: Math.max(1, Math.round(bytes / 1e6 / own_s)) };
    setDmaRate(found.rate_mbps);
  }
  return found;
}

/** Of `job`, which was saved in place with `--keep`; it runs afterwards, restored for the last time. */
export async function hiding(job: Container, rounds: number): Promise<Hiding> {
  try {
    const calibrated = await calibrate(job);
    const serial: number[] = [];
    const parallel: number[] = [];
    const uploads: number[] = [];
    const whole = { serial: [] as number[], parallel: [] as number[] };
    for (let round = 0; round < rounds; round++) {
      // Alternating order, so that a drift of the machine favours neither.
      for (const both of round % 2 === 0 ? [false, true] : [true, false]) {
        const { took, session } = await restore(job, both);
        (both ? parallel : serial).push(window(session));
        (both ? whole.parallel : whole.serial).push(took);
        if (!both) uploads.push(phase(session, 'upload'));
      }
    }
    return {
      ...calibrated,
      rounds_own_s: serial.map((took, round) => took - (uploads[round] ?? Number.NaN)),
      serial_s: serial,
      parallel_s: parallel,
      whole_s: whole,
      upload_s: uploads,
      hidden: (spread(serial).median - spread(parallel).median) / spread(uploads).median,
    };
  } finally {
    setDmaRate(0);
    configure({});
  }
}
