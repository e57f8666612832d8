/** What a spare session saves: checkpoint and restore of a container without contents, with and without one. */

import { Container } from '../e2e/support/container.js';
import { SpareUnit } from '../e2e/support/spare.js';
import { show, spread } from './stats.js';
import { seconds } from './timing.js';

const pairs = Number(process.env['BENCH_ROUNDS'] ?? 5);

interface Sample {
  readonly checkpoint: number;
  readonly restore: number;
}

/** Seconds of one checkpoint and one restore in place. `ready` comes before each. */
async function once(job: Container, ready: () => Promise<void>): Promise<Sample> {
  await ready();
  const checkpoint = await seconds('podman', 'container', 'checkpoint', job.name);
  await ready();
  return { checkpoint, restore: await seconds('podman', 'container', 'restore', job.name) };
}

/** With a spare session that waits. */
async function withSpare(job: Container): Promise<Sample> {
  const unit = new SpareUnit();
  await unit.start();
  try {
    return await once(job, () => unit.waits());
  } finally {
    await unit.stop();
  }
}

export async function spare(): Promise<Record<string, unknown>> {
  const job = await Container.start({ engine: 'crun', worker: ['--vram-mib', '1'] });
  const samples: { with: Sample[]; without: Sample[] } = { with: [], without: [] };
  await once(job, async () => {}); // the first one reads what is new
  for (let pair = 0; pair < pairs; pair++) {
    // Alternating order, so that a drift of the machine favours neither.
    for (const way of pair % 2 === 0
      ? (['with', 'without'] as const)
      : (['without', 'with'] as const))
      samples[way].push(way === 'with' ? await withSpare(job) : await once(job, async () => {}));
  }
  if (!(await job.control.ask('verify')).startsWith('verified ')) throw new Error('other contents');
  await job.remove();
  process.stdout.write('a container without contents, with and without a spare session\n');
  const ratios = (['checkpoint', 'restore'] as const).map((key) => {
    const [ours, others] = [samples.with, samples.without].map((all) => all.map((one) => one[key]));
    const ratio = spread((ours ?? []).map((one, pair) => one / (others?.[pair] ?? Number.NaN)));
    process.stdout.write(
      `  ${key.padEnd(10)}  with ${show(ours ?? [])} s, without ${show(others ?? [])} s, ` +
        `ratio ${ratio.median.toFixed(2)} (${ratio.min.toFixed(2)}-${ratio.max.toFixed(2)})\n`,
    );
    return [key, ratio];
  });
  return { ...samples, ratios: Object.fromEntries(ratios) };
}
