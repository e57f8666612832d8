/**
 * How much of the upload disappears behind CRIU's own work: the same archive restored with
 * `parallel` true and false, at a DMA rate at which the upload alone takes as long as CRIU's part.
 * What counts is the window in which an upload can make a restore longer: from the state of the
 * KFD process being back to the gate being open. Before it podman unpacks the archive, and that
 * alone differs by more from one time to the next.
 */

import { configure, setDmaRate } from '../e2e/support/product.js';
import type { LogLine } from '../e2e/support/session.js';
import { show, spread } from './stats.js';
import { Traveller } from './trip.js';

/** Host memory gives CRIU work of its own; under emulation an upload also costs processor time. */
const worker = ['--vram-mib', '512', '--host-mib', '3072', '--step-ms', '0'];
const rounds = 3;

function phase(session: LogLine, name: string): number {
  return (session.timings_us?.[name] ?? 0) / 1e6;
}

export async function hidden(): Promise<Record<string, unknown>> {
  const job = await Traveller.save(worker);
  const restore = (parallel: boolean) => {
    configure({ parallel });
    return job.restore();
  };

  // CRIU's own part: from the state being back to post-restore, when nothing is uploaded meanwhile.
  // The first time, the machine's memory is touched for the first time: the second one counts.
  await restore(false);
  const { session: first } = await restore(false);
  const own = phase(first, 'overlap') - phase(first, 'upload');
  const bytes = first.content_bytes ?? 0;
  const rate = Math.max(1, Math.round(bytes / 1e6 / own));
  setDmaRate(rate);

  const serial: number[] = [];
  const parallel: number[] = [];
  const uploads: number[] = [];
  const whole = { serial: [] as number[], parallel: [] as number[] };
  for (let round = 0; round < rounds; round++) {
    // Alternating order, so that a drift of the machine favours neither.
    for (const both of round % 2 === 0 ? [false, true] : [true, false]) {
      const { took, session } = await restore(both);
      (both ? parallel : serial).push(phase(session, 'overlap') + phase(session, 'gate'));
      (both ? whole.parallel : whole.serial).push(took);
      if (!both) uploads.push(phase(session, 'upload'));
    }
  }
  setDmaRate(0);
  const right = await job.right();
  configure({});
  await job.forget();
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
