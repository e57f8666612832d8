/** Of one process: how much of the upload disappears behind CRIU's own work. */

import { Container } from '../e2e/support/container.js';
import { hiding } from './hiding.js';
import { show } from './stats.js';
import { seconds } from './timing.js';

/** Host memory gives CRIU work of its own; under emulation an upload also costs processor time. */
const worker = ['--vram-mib', '512', '--host-mib', '2048', '--step-ms', '0'];
const count = 7;

export async function hidden(): Promise<Record<string, unknown>> {
  const job = await Container.start({ engine: 'crun', worker });
  await seconds('podman', 'container', 'checkpoint', '--keep', job.name);
  const found = await hiding(job, count);
  const right = (await job.control.ask('verify', 600)).startsWith('verified ');
  await job.remove();
  const { bytes, rounds } = found;
  const times = (name: 'serial_s' | 'parallel_s' | 'own_s' | 'upload_s' | 'gate_s') =>
    show(rounds.map((round) => round[name]));
  const whole = (name: 'serial' | 'parallel') => show(rounds.map(({ whole_s }) => whole_s[name]));
  const rate = show(
    rounds.map(({ rate_mbps }) => rate_mbps),
    0,
  );
  const percent = show(
    rounds.map((round) => round.hidden * 100),
    0,
  );
  process.stdout.write(
    [
      `upload hidden behind CRIU (${(bytes / 2 ** 20).toFixed(0)} MiB, ${rate} MB/s simulated DMA)`,
      `  window, parallel = false   ${times('serial_s')} s (whole restore ${whole('serial')} s)`,
      `  window, parallel = true    ${times('parallel_s')} s (whole restore ${whole('parallel')} s)`,
      `  CRIU's part                ${times('own_s')} s`,
      `  waiting at the gate        ${times('gate_s')} s of parallel windows`,
      `  upload alone               ${times('upload_s')} s`,
      `  hidden                     ${percent} %, data ${right ? 'right' : 'WRONG'}`,
      '',
    ].join('\n'),
  );
  return { ...found, right };
}
