/**
 * One to eight GPU processes in one container: how much of their uploads CRIU hides, and how their times compare with
 * one process.
 */

import { Container } from '../e2e/support/container.js';
import { configure } from '../e2e/support/product.js';
import { type Hiding, hiding } from './hiding.js';
import { show, spread } from './stats.js';
import { seconds } from './timing.js';

/** The contents of each process the table is about, in MiB. */
const contents = 256;
/**
 * Host memory for CRIU to bring back, in MiB. The first process has all of it. One of the two emulated processors is
 * then left to the uploads, as on a host with a GPU. The memory of eight processes and its image must fit the guest.
 */
const hostMemory = (count: number) => 704 * (count + 1);
const repeats = 2;

interface Row extends Hiding {
  readonly count: number;
  readonly checkpoint_s: number;
}

export async function processes(): Promise<Record<string, unknown>> {
  process.stdout.write(
    `GPU processes in one container, ${contents} MiB of contents each, ` +
      'at a rate at which the upload takes as long as CRIU\n',
  );
  const rows: Row[] = [];
  for (const count of [1, 2, 4, 8]) {
    const row = await measure(count);
    rows.push(row);
    const [single = row] = rows;
    const each = (pick: (round: Row['rounds'][number]) => number, digits: number) =>
      show(row.rounds.map(pick), digits);
    const median = ({ rounds }: Row) =>
      spread(rounds.map(({ whole_s }) => whole_s.parallel)).median;
    const ratio = (took: number, one: number) => (took / (one * count)).toFixed(2);
    const saving = ratio(row.checkpoint_s, single.checkpoint_s);
    process.stdout.write(
      `  ${count}: checkpoint ${row.checkpoint_s.toFixed(1)} s (${saving} of ${count} single ones), ` +
        `restore ${each(({ whole_s }) => whole_s.parallel, 1)} s (${ratio(median(row), median(single))}), ` +
        `at ${each((round) => round.rate_mbps, 0)} MB/s upload ${each((round) => round.upload_s, 1)} s, ` +
        `hidden ${each((round) => round.hidden * 100, 0)} %\n`,
    );
  }
  return { rows };
}

async function start(count: number): Promise<Container> {
  const worker = `gpu-worker --vram-mib ${contents} --step-ms 0`;
  const first = `${worker} --host-mib ${hostMemory(count)}`;
  const folders = Array.from({ length: count - 1 }, (_, i) => `worker-${i + 2}`);
  const others = folders.map((folder, i) => `${worker} --seed ${i + 2} --control /ctl/${folder} &`);
  return Container.start({
    engine: 'crun',
    folders,
    command: ['sh', '-c', `${others.join(' ')} ${first}; echo ended`],
  });
}

/** Contents are stored as they are: decoding, which is emulated too, is none of this. */
function save(job: Container): Promise<number> {
  configure({ compress: 'none' });
  return seconds('podman', 'container', 'checkpoint', '--keep', job.name);
}

async function measure(count: number): Promise<Row> {
  const job = await start(count);
  const checkpoint_s = await save(job);
  const found = await hiding(job, repeats);
  for (const control of [job.control, ...job.inner]) {
    const answer = await control.ask('verify', 600);
    if (!answer.startsWith('verified ')) throw new Error(`${count} processes: ${answer}`);
  }
  await job.remove();
  return { count, checkpoint_s, ...found };
}
