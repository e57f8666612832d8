/** One to eight GPU processes in one container: what their uploads cost, and the whole against the single ones. */

import { Container } from '../e2e/support/container.js';
import { measureHidden } from './hidden.js';
import { show, spread } from './stats.js';
import { seconds } from './timing.js';

/** Each has the contents the table is about, and host memory for CRIU to save. */
const worker = 'gpu-worker --vram-mib 256 --host-mib 512 --step-ms 0';
const rounds = 3;

export async function processes(): Promise<Record<string, unknown>> {
  process.stdout.write('GPU processes in one container, 256 MiB of contents each\n');
  const rows: Record<string, unknown>[] = [];
  let single: { checkpoint_s: number; restore_s: number } | undefined;
  for (const count of [1, 2, 4, 8]) {
    const folders = Array.from({ length: count - 1 }, (_, i) => `worker-${i + 2}`);
    const others = folders.map(
      (folder, i) => `${worker} --seed ${i + 2} --control /ctl/${folder} &`,
    );
    const job = await Container.start({
      engine: 'crun',
      folders,
      command: ['sh', '-c', `${others.join(' ')} ${worker}; echo ended`],
    });
    const checkpoint_s = await seconds('podman', 'container', 'checkpoint', '--keep', job.name);
    const result = await measureHidden(job, rounds);
    for (const control of [job.control, ...job.inner]) {
      const answer = await control.ask('verify', 600);
      if (!answer.startsWith('verified ')) throw new Error(`${count} processes: ${answer}`);
    }
    await job.remove();
    const restore_s = spread(result.whole_s.parallel).median;
    single ??= { checkpoint_s, restore_s };
    rows.push({ count, checkpoint_s, ...result });
    const ratio = (took: number, one: number) => (took / (one * count)).toFixed(2);
    process.stdout.write(
      `  ${count}: checkpoint ${checkpoint_s.toFixed(1)} s (${ratio(checkpoint_s, single.checkpoint_s)} of ${count} single ones), ` +
        `restore ${show(result.whole_s.parallel, 1)} s (${ratio(restore_s, single.restore_s)}), ` +
        `upload ${show(result.upload_s, 1)} s at ${result.rate_mbps} MB/s, ${(result.hidden * 100).toFixed(0)} % hidden\n`,
    );
  }
  return { rows };
}
