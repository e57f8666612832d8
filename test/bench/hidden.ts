/**
 * How much of the upload disappears behind CRIU's own work: the same archive restored with
 * `parallel` true and false, at a DMA rate at which the upload alone takes as long as CRIU's part.
 */

import { configure, setDmaRate } from '../e2e/support/product.js';
import type { LogLine } from '../e2e/support/session.js';
import { show, spread } from './stats.js';
import { Traveller } from './trip.js';

/** Host memory gives CRIU work of its own; under emulation an upload also costs processor time. */
const worker = ['--vram-mib', '512', '--host-mib', '1536', '--step-ms', '0'];
const rounds = 5;

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
  const { session: first } = await restore(false);
  const own = phase(first, 'overlap') - phase(first, 'upload');
  const bytes = first.content_bytes ?? 0;
  const rate = Math.max(1, Math.round(bytes / 1e6 / own));
  setDmaRate(rate);

  const serial: number[] = [];
  const parallel: number[] = [];
  const uploads: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const alone = await restore(false);
    serial.push(alone.took);
    uploads.push(phase(alone.session, 'upload'));
    parallel.push((await restore(true)).took);
  }
  setDmaRate(0);
  const right = await job.right();
  configure({});
  await job.forget();
  const share = (spread(serial).median - spread(parallel).median) / spread(uploads).median;
  process.stdout.write(
    [
      `upload hidden behind CRIU (${(bytes / 2 ** 20).toFixed(0)} MiB, ${rate} MB/s simulated DMA, CRIU's part ${own.toFixed(1)} s)`,
      `  restore, parallel = false  ${show(serial)} s`,
      `  restore, parallel = true   ${show(parallel)} s`,
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
    upload_s: uploads,
    hidden: share,
    right,
  };
}
