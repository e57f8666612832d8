/**
 * How much of an upload disappears behind CRIU's own work: the same image restored with
 * `parallel` false and true, at a DMA rate at which the upload alone takes as long as CRIU's part.
 * What counts is the window in which an upload can make a restore longer: from the first KFD process
 * asking for its state to the gate being open. Later processes get theirs while contents of earlier
 * ones are on their way. What podman and CRIU do before that differs by more from one time to the next.
 * A machine that others use changes its speed by a quarter within minutes: each round sets its own
 * rate and is judged by itself, as a pair of restores one after the other.
 */

import { attempt, run } from '../e2e/support/command.js';
import type { Container } from '../e2e/support/container.js';
import { configure, setDmaRate } from '../e2e/support/product.js';
import { type LogLine, sessionEnd } from '../e2e/support/session.js';
import { spread } from './stats.js';
import { seconds } from './timing.js';

/** Two restores, one after the other; times in seconds. */
interface Round {
  readonly rate_mbps: number;
  /** What CRIU did in the window of the serial one, without the upload. */
  readonly own_s: number;
  readonly upload_s: number;
  readonly serial_s: number;
  readonly parallel_s: number;
  readonly whole_s: { readonly serial: number; readonly parallel: number };
  /** Share of the upload that made the parallel restore no longer: 0 to 1, beyond which is chance. */
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

/** Of so many restores the median says what CRIU's part is: the upload is to take as long. */
const recent = 3;

/** Of `job`, which was saved in place with `--keep`; it runs afterwards, restored for the last time. */
export async function hiding(job: Container, count: number): Promise<Hiding> {
  let bytes = 0;
  const owns: number[] = [];
  const serial = async () => {
    const { took, session } = await restore(job, false);
    bytes = session.content_bytes ?? 0;
    const upload_s = phase(session, 'upload');
    const own_s = window(session) - upload_s;
    owns.push(own_s);
    return { took, window_s: window(session), upload_s, own_s };
  };
  const parallel = async () => {
    const { took, session } = await restore(job, true);
    return { took, window_s: window(session) };
  };
  const setRate = () => {
    const rate_mbps = Math.max(1, Math.round(bytes / 1e6 / spread(owns.slice(-recent)).median));
    setDmaRate(rate_mbps);
    return rate_mbps;
  };
  try {
    // The first restore touches the machine's memory for the first time, and pauses make CRIU's part shorter.
    await serial();
    owns.length = 0;
    await serial();
    setRate();
    owns.length = 0;
    for (let i = 0; i < recent; i++) await serial();

    const rounds: Round[] = [];
    for (let round = 0; round < count; round++) {
      const rate_mbps = setRate();
      // Alternating order, so that a drift of the machine favours neither.
      const early = round % 2 === 0 ? undefined : await parallel();
      const one = await serial();
      const both = early ?? (await parallel());
      rounds.push({
        rate_mbps,
        own_s: one.own_s,
        upload_s: one.upload_s,
        serial_s: one.window_s,
        parallel_s: both.window_s,
        whole_s: { serial: one.took, parallel: both.took },
        hidden: (one.window_s - both.window_s) / one.upload_s,
      });
    }
    return { bytes, rounds };
  } finally {
    setDmaRate(0);
    configure({});
  }
}
