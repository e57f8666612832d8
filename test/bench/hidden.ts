/**
 * How much of the upload disappears behind CRIU's own work: the same archive restored with
 * `parallel` true and false, at a DMA rate at which the upload alone takes as long as CRIU's part.
 */

import { rmSync } from 'node:fs';
import { archivePath } from '../e2e/support/archive.js';
import { Container } from '../e2e/support/container.js';
import { configure, lastSession, setDmaRate } from '../e2e/support/product.js';
import { show, spread } from './stats.js';
import { seconds } from './timing.js';

/** Host memory gives CRIU work of its own; under emulation an upload also costs processor time. */
const worker = ['--vram-mib', '512', '--host-mib', '1536', '--step-ms', '0'];
const rounds = 3;

function sessionSeconds(name: string): number {
  const timings = lastSession('restore').findLast((line) => line.timings_us)?.timings_us ?? {};
  return (timings[name] ?? 0) / 1e6;
}

export async function hidden(): Promise<Record<string, unknown>> {
  const archive = archivePath('hidden.tar');
  const job = await Container.start({ engine: 'crun', worker });
  seconds('podman', 'container', 'checkpoint', '--compress', 'none', '--export', archive, job.name);
  const restore = (parallel: boolean): number => {
    job.remove();
    configure({ parallel });
    return seconds('podman', 'container', 'restore', '--import', archive);
  };

  // CRIU's own part: from the state being back to post-restore, when nothing is uploaded meanwhile.
  restore(false);
  const own = sessionSeconds('overlap') - sessionSeconds('upload');
  const bytes = lastSession('restore').findLast((line) => line.content_bytes)?.content_bytes ?? 0;
  const rate = Math.max(1, Math.round(bytes / 1e6 / own));
  setDmaRate(rate);

  const serial: number[] = [];
  const parallel: number[] = [];
  const uploads: number[] = [];
  for (let round = 0; round < rounds; round++) {
    serial.push(restore(false));
    uploads.push(sessionSeconds('upload'));
    parallel.push(restore(true));
  }
  setDmaRate(0);
  job.remove();
  configure({});
  rmSync(archive);
  const share = (spread(serial).median - spread(parallel).median) / spread(uploads).median;
  process.stdout.write(
    [
      `upload hidden behind CRIU (${(bytes / 2 ** 20).toFixed(0)} MiB, ${rate} MB/s simulated DMA, CRIU's part ${own.toFixed(1)} s)`,
      `  restore, parallel = false  ${show(serial)} s`,
      `  restore, parallel = true   ${show(parallel)} s`,
      `  upload alone               ${show(uploads)} s`,
      `  hidden                     ${(share * 100).toFixed(0)} %`,
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
  };
}
