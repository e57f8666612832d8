/** Of one process: how much of the upload disappears behind CRIU's own work. */

import { Container } from '../e2e/support/container.js';
import { hiding } from './hiding.js';
import { show } from './stats.js';
import { seconds } from './timing.js';

/** Host memory gives CRIU work of its own; under emulation an upload also costs processor time. */
const worker = ['--vram-mib', '512', '--host-mib', '2048', '--step-ms', '0'];
const rounds = 9;

export async function hidden(): Promise<Record<string, unknown>> {
  const job = await Container.start({ engine: 'crun', worker });
  await seconds('podman', 'container', 'checkpoint', '--keep', job.name);
  const found = await hiding(job, rounds);
  const right = (await job.control.ask('verify', 600)).startsWith('verified ');
  await job.remove();
  const { bytes, rate_mbps, own_s, whole_s } = found;
  process.stdout.write(
    [
      `upload hidden behind CRIU (${(bytes / 2 ** 20).toFixed(0)} MiB, ${rate_mbps} MB/s simulated DMA, CRIU's part ${own_s.toFixed(1)} s)`,
      `  window, parallel = false   ${show(found.serial_s)} s (whole restore ${show(whole_s.serial)} s)`,
      `  window, parallel = true    ${show(found.parallel_s)} s (whole restore ${show(whole_s.parallel)} s)`,
      `  CRIU's part in the rounds  ${show(found.rounds_own_s)} s`,
      `  upload alone               ${show(found.upload_s)} s`,
      `  hidden                     ${(found.hidden * 100).toFixed(0)} %, data ${right ? 'right' : 'WRONG'}`,
      '',
    ].join('\n'),
  );
  return { ...found, right };
}
