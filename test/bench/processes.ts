/** One to eight GPU processes in one container: how much of their uploads CRIU hides, and the whole against the single ones. */

import { attempt, run } from '../e2e/support/command.js';
import { Container } from '../e2e/support/container.js';
import { setDmaRate } from '../e2e/support/product.js';
import { sessionEnd } from '../e2e/support/session.js';
import { show, spread } from './stats.js';
import { seconds } from './timing.js';

/** Each has the contents the table is about, and host memory for CRIU: eight of them and their image must fit the guest. */
const worker = 'gpu-worker --vram-mib 256 --host-mib 512 --step-ms 0';
const rounds = 3;
/** MB/s of the one GPU, at which an upload takes about as long as CRIU's part. */
const rate = 200;

interface Row {
  readonly count: number;
  readonly checkpoint_s: number;
  readonly restore_s: readonly number[];
  readonly upload_s: readonly number[];
  /** Of each upload: what was done when CRIU came to the gate, 0 to 1. */
  readonly hidden: readonly number[];
}

export async function processes(): Promise<Record<string, unknown>> {
  process.stdout.write(
    `GPU processes in one container, 256 MiB of contents each, ${rate} MB/s simulated DMA\n`,
  );
  const rows: Row[] = [];
  setDmaRate(rate);
  for (const count of [1, 2, 4, 8]) {
    const row = await measure(count);
    rows.push(row);
    const [single = row] = rows;
    const ratio = (took: number, one: number) => (took / (one * count)).toFixed(2);
    const restore = ratio(spread(row.restore_s).median, spread(single.restore_s).median);
    process.stdout.write(
      `  ${count}: checkpoint ${row.checkpoint_s.toFixed(1)} s (${ratio(row.checkpoint_s, single.checkpoint_s)} of ${count} single ones), ` +
        `restore ${show(row.restore_s, 1)} s (${restore}), upload ${show(row.upload_s, 1)} s, hidden ${show(row.hidden)}\n`,
    );
  }
  setDmaRate(0);
  return { rate_mbps: rate, rows };
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
  const restore_s: number[] = [];
  const upload_s: number[] = [];
  const hidden: number[] = [];
  for (let round = 0; round < rounds; round++) {
    // It does not run before the first restore.
    const killed = await attempt('podman', 'kill', job.name);
    if (killed.status === 0) await run('podman', 'wait', job.name);
    restore_s.push(await seconds('podman', 'container', 'restore', '--keep', job.name));
    const { timings_us: timings = {} } = await sessionEnd(job, 'restore');
    const upload = timings['upload'] ?? Number.NaN;
    upload_s.push(upload / 1e6);
    hidden.push((timings['upload_overlapped'] ?? Number.NaN) / upload);
  }
  for (const control of [job.control, ...job.inner]) {
    const answer = await control.ask('verify', 600);
    if (!answer.startsWith('verified ')) throw new Error(`${count} processes: ${answer}`);
  }
  await job.remove();
  return { count, checkpoint_s, restore_s, upload_s, hidden };
}
