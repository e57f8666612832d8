/** One to eight GPU processes in one container: how much of their uploads CRIU hides, and the whole against the single ones. */

import { Container } from '../e2e/support/container.js';
import { type Hiding, hiding } from './hiding.js';
import { show, spread } from './stats.js';
import { seconds } from './timing.js';

/** Each has the contents the table is about, and host memory for CRIU: eight of them and their image must fit the guest. */
const worker = 'gpu-worker --vram-mib 256 --host-mib 512 --step-ms 0';
const rounds = 3;

interface Row extends Hiding {
  readonly count: number;
  readonly checkpoint_s: number;
}

export async function processes(): Promise<Record<string, unknown>> {
  process.stdout.write(
    'GPU processes in one container, 256 MiB of contents each, at a rate at which the upload takes as long as CRIU\n',
  );
  const rows: Row[] = [];
  for (const count of [1, 2, 4, 8]) {
    const row = await measure(count);
    rows.push(row);
    const [single = row] = rows;
    const median = ({ whole_s }: Row) => spread(whole_s.parallel).median;
    const ratio = (took: number, one: number) => (took / (one * count)).toFixed(2);
    process.stdout.write(
      `  ${count}: checkpoint ${row.checkpoint_s.toFixed(1)} s (${ratio(row.checkpoint_s, single.checkpoint_s)} of ${count} single ones), ` +
        `restore ${show(row.whole_s.parallel, 1)} s (${ratio(median(row), median(single))}), ` +
        `at ${row.rate_mbps} MB/s upload ${show(row.upload_s, 1)} s, hidden ${(row.hidden * 100).toFixed(0)} %\n`,
    );
  }
  return { rows };
}

async function measure(count: number): Promise<Row> {
  const folders = Array.from({ length: count - 1 }, (_, i) => `worker-${i + 2}`);
  const others = folders.map((folder, i) => `${worker} --seed ${i + 2} --control /ctl/${folder} &`);
  const job = await Container.start({
    engine: 'crun',
    folders,
    command: ['sh', '-c', `${others.join(' ')} ${worker}; echo ended`],
  });
  const checkpoint_s = await seconds('podman', 'container', 'checkpoint', '--keep', job.name);
  const found = await hiding(job, rounds);
  for (const control of [job.control, ...job.inner]) {
    const answer = await control.ask('verify', 600);
    if (!answer.startsWith('verified ')) throw new Error(`${count} processes: ${answer}`);
  }
  await job.remove();
  return { count, checkpoint_s, ...found };
}
