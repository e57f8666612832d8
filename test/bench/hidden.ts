/**
 * How much of the upload disappears behind CRIU's own work: the same image restored with
 * `parallel` true and false, at a DMA rate at which the upload alone takes as long as CRIU's part.
 * What counts is the window in which an upload can make a restore longer: from the state of the
 * KFD process being back to the gate being open. What podman and CRIU
 * do before that differs by more from one time to the next.
 */

import { attempt, run } from '../e2e/support/command.js';
import { Container } from '../e2e/support/container.js';
import { configure, setDmaRate } from '../e2e/support/product.js';
import { type LogLine, sessionEnd } from '../e2e/support/session.js';
import { show, spread } from './stats.js';
import { seconds } from './timing.js';

/** Host memory gives CRIU work of its own; under emulation an upload also costs processor time. */
const worker = ['--vram-mib', '512', '--host-mib', '2048', '--step-ms', '0'];
const rounds = 5;

function phase(session: LogLine, name: string): number {
  return (session.timings_us?.[name] ?? 0) / 1e6;
}

export async function hidden(): Promise<Record<string, unknown>> {
  const job = await Container.start({ engine: 'crun', worker });
  await seconds('podman', 'container', 'checkpoint', '--keep', job.name);
  const restore = async (parallel: boolean): Promise<{ took: number; session: LogLine }> => {
    configure({ parallel });
    // It does not run before the first restore.
    const killed = await attempt('podman', 'kill', job.name);
    if (killed.status === 0) await run('podman', 'wait', job.name);
    const took = await seconds('podman', 'container', 'restore', '--keep', job.name);
    return { took, session: await sessionEnd(job, 'restore') };
  };
  const window = (session: LogLine) => phase(session, 'overlap') + phase(session, 'gate');

  // The rate at which an upload takes as long as what CRIU does in the window by itself. The first
  // restore touches the machine's memory for the first time, and a pause before it makes CRIU's
  // part shorter, so it is measured again at the rate that was found.
  await restore(false);
  let own = 0;
  let bytes = 0;
  let rate = 0;
  for (let i = 0; i < 2; i++) {
    const { session } = await restore(false);
    own = window(session) - phase(session, 'upload');
    bytes = session.content_bytes ?? 0;
    rate = Math.max(1, Math.round(bytes / 1e6 / own));
    setDmaRate(rate);
  }

  const serial: number[] = [];
  const parallel: number[] = [];
  const uploads: number[] = [];
  const whole = { serial: [] as number[], parallel: [] as number[] };
  for (let round = 0; round < rounds; round++) {
    // Alternating order, so that a drift of the machine favours neither.
    for (const both of round % 2 === 0 ? [false, true] : [true, false]) {
      const { took, session } = await restore(both);
      (both ? parallel : serial).push(window(session));
      (both ? whole.parallel : whole.serial).push(took);
      if (!both) uploads.push(phase(session, 'upload'));
    }
  }
  setDmaRate(0);
  const right = (await job.control.ask('verify', 600)).startsWith('verified ');
  configure({});
  await job.remove();
  const share = (spread(serial).median - spread(parallel).median) / spread(uploads).median;
  process.stdout.write(
    [
      `upload hidden behind CRIU (${(bytes / 2 ** 20).toFixed(0)} MiB, ${rate} MB/s simulated DMA, CRIU's part ${own.toFixed(1)} s)`,
      `  window, parallel = false   ${show(serial)} s (whole restore ${show(whole.serial)} s)`,
      `  window, parallel = true    ${show(parallel)} s (whole restore ${show(whole.parallel)} s)`,
      `  upload alone               ${show(uploads)} s`,
      `  hidden                     ${(share * 100).toFixed(0)} %, data ${right ? 'right' : 'WRONG'}`,
      '',
    ].join('\n'),
  );
  return {
    bytes,
    rate_mbps: rate,
    own_s: own,
    serial_s: serial,
    parallel_s: parallel,
    whole_s: whole,
    upload_s: uploads,
    hidden: share,
    right,
  };
}
