/**
 * The same containers with our plugin and with upstream's, on one CRIU, in turns. BENCH_ROUNDS (5) rounds of each:
 * without contents, BENCH_BUFFERS (1000) BOs of 64 KiB, and one BO of each size of BENCH_SIZES (150 1024) MiB. With
 * BENCH_SPARE=yes ours has a spare session.
 */

import { rmSync, statSync } from 'node:fs';
import { archivePath } from '../e2e/support/archive.js';
import { Container } from '../e2e/support/container.js';
import { sessionEnd } from '../e2e/support/session.js';
import { SpareUnit } from '../e2e/support/spare.js';
import { assertSide, mountRival, type Side, sides, unmountRival, use } from './rival.js';
import { pairedRatios, show, spread } from './stats.js';
import { timed } from './timing.js';

const measures = ['checkpoint', 'restore', 'freeze', 'bytes'] as const;
type Measure = (typeof measures)[number];

/** Seconds, and the archive's bytes. `freeze` is that of --leave-running, the others of a stopped container. */
interface Sample extends Readonly<Record<Measure, number>> {
  /** What our sessions say, microseconds. */
  readonly dump_us?: Readonly<Record<string, number>>;
  readonly restore_us?: Readonly<Record<string, number>>;
}

type Samples = Record<Side, Sample[]>;

interface Row {
  readonly name: string;
  readonly worker: readonly string[];
}

function rows(): Row[] {
  const count = process.env['BENCH_BUFFERS'] ?? '1000';
  const sizes = (process.env['BENCH_SIZES'] ?? '150 1024').split(/\s+/).filter(Boolean);
  return [
    { name: 'no contents', worker: [] },
    { name: `${count} BOs of 64 KiB`, worker: ['--bos', count, '--bo-kib', '64'] },
    ...sizes.map((mib) => ({ name: `${mib} MiB in one BO`, worker: ['--vram-mib', mib] })),
  ];
}

const spare = process.env['BENCH_SPARE'] === 'yes' ? new SpareUnit() : undefined;

/** Ours begins when a spare session waits, where there is to be one. */
async function podman(...args: string[]) {
  await spare?.waits();
  return timed('podman', 'container', ...args);
}

/** Seconds that CRIU kept the tasks frozen, of podman's statistics: neither side's own account. */
function frozen(statistics: string): number {
  const { container_statistics: [first] = [] } = JSON.parse(statistics) as {
    container_statistics?: { criu_statistics?: { frozen_time?: number } }[];
  };
  const us = first?.criu_statistics?.frozen_time;
  if (us === undefined) throw new Error(`podman tells no frozen_time: ${statistics}`);
  return us / 1e6;
}

async function timesOfSession(side: Side, job: Container, operation: 'dump' | 'restore') {
  assertSide(side, job, operation);
  return side === 'ours' ? (await sessionEnd(job, operation)).timings_us : undefined;
}

/** One container goes on after a checkpoint, is saved and brought back, and must have its contents then. */
async function sampleOf(side: Side, worker: readonly string[]): Promise<Sample> {
  await use(side);
  const job = await Container.start({ engine: 'crun', worker: [...worker, '--step-ms', '0'] });
  const archive = archivePath('crun', 'rival.tar');
  const flags = ['--keep', '--compress', 'none', '--export', archive];
  const running = await podman(
    'checkpoint',
    '--leave-running',
    '--print-stats',
    ...flags,
    job.name,
  );
  rmSync(archive);
  const saved = await podman('checkpoint', ...flags, job.name);
  const dump_us = await timesOfSession(side, job, 'dump');
  const bytes = statSync(archive).size;
  await job.remove();
  const restored = await podman('restore', '--keep', '--import', archive);
  const restore_us = await timesOfSession(side, job, 'restore');
  const answer = await job.control.ask('verify', 600);
  if (!answer.startsWith('verified ')) throw new Error(`${side}: ${answer}`);
  await job.remove();
  rmSync(archive);
  return {
    checkpoint: saved.seconds,
    restore: restored.seconds,
    freeze: frozen(running.stdout),
    bytes,
    ...(dump_us && { dump_us }),
    ...(restore_us && { restore_us }),
  };
}

async function inTurns(worker: readonly string[], rounds: number): Promise<Samples> {
  const samples: Samples = { ours: [], upstream: [] };
  for (let round = 0; round < rounds; round++) {
    // Alternating order, so that a drift of the machine favours neither.
    for (const side of round % 2 === 0 ? sides : sides.toReversed()) {
      samples[side].push(await sampleOf(side, worker));
    }
  }
  return samples;
}

const of = (samples: Samples, side: Side, measure: Measure) =>
  samples[side].map((sample) => sample[measure]);

const ratios = (samples: Samples, measure: Measure) =>
  pairedRatios(of(samples, 'ours', measure), of(samples, 'upstream', measure));

function line(samples: Samples, measure: Measure): string {
  const [unit, scale, digits] = measure === 'bytes' ? ['MB', 1e-6, 1] : ['s', 1, 2];
  const shown = (side: Side) =>
    show(
      of(samples, side, measure).map((value) => value * scale),
      digits,
    );
  return (
    `    ${measure.padEnd(10)} ours ${shown('ours')} ${unit}, upstream ${shown('upstream')} ${unit}, ` +
    `ratio ${show(ratios(samples, measure))}\n`
  );
}

/** The median of each phase of our own sessions, milliseconds. */
function phases(samples: Samples, which: 'dump_us' | 'restore_us'): string {
  const all = samples.ours.map((sample) => sample[which] ?? {});
  const median = (name: string) => spread(all.map((times) => times[name] ?? 0)).median / 1000;
  const names = [...new Set(all.flatMap(Object.keys))];
  return names.map((name) => `${name} ${median(name).toFixed(0)}`).join(', ');
}

export async function upstream(): Promise<Record<string, unknown>> {
  const rounds = Number(process.env['BENCH_ROUNDS'] ?? 5);
  const version = await mountRival();
  process.stdout.write(`ours and upstream's plugin, both on CRIU ${version}\n`);
  const results: Record<string, unknown>[] = [];
  try {
    await spare?.start();
    for (const side of sides) await sampleOf(side, []); // what is read for the first time
    for (const { name, worker } of rows()) {
      const samples = await inTurns(worker, rounds);
      const lines = measures.map((measure) => line(samples, measure));
      process.stdout.write(
        `  ${name}, contents right\n${lines.join('')}` +
          `    our phases, ms: checkpoint ${phases(samples, 'dump_us')}\n` +
          `                    restore ${phases(samples, 'restore_us')}\n`,
      );
      const medians = measures.map((measure) => [measure, spread(ratios(samples, measure)).median]);
      results.push({ name, ...samples, ratios: Object.fromEntries(medians) });
    }
  } finally {
    await spare?.stop();
    await unmountRival();
  }
  return { criu: version, results };
}
