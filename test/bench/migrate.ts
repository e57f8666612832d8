/**
 * How long a container with BENCH_MIB (1024) MiB on the GPU stands still when it moves to another guest, over a network
 * of limited rate: by a checkpoint, scp and a restore, and by `kfd-checkpoint migrate` with and without a round ahead.
 * Half of the contents are random, and the rest compresses well. 5 % of them change all the while.
 */

import { mkdirSync, rmSync, statSync } from 'node:fs';
import { attemptWithin, run } from '../e2e/support/command.js';
import {
  bytesSent,
  hostB,
  installThere,
  loadImageThere,
  meetComplaintThere,
  Traveller,
} from '../e2e/support/host-b.js';
import { show, spread } from './stats.js';

const half = Number(process.env['BENCH_MIB'] ?? 1024) / 2;
const worker = [
  ...['--vram-mib', `${half}`, '--changing-mib', `${half}`],
  // Of all contents, in MiB.
  ...['--changes-mib', `${Math.round(half / 10)}`, '--step-ms', '1000'],
];
/** In memory, as the storage of both hosts: the guests' disks have no room for a gigabyte. */
const archive = '/var/lib/containers/moved.tar';
const kept = '/var/lib/kfd-checkpoint/kept';

interface Sample {
  /** Seconds in which neither host runs the container: from the call that stops it to its word that it runs. */
  readonly downtime: number;
  /** Seconds of the whole command, or of all three. */
  readonly whole: number;
  /** Bytes that left this host, acknowledgements and headers, too. */
  readonly sent: number;
  /** Bytes of the archive by hand: contents, compressed and once each, and what CRIU has. */
  readonly archive?: number;
  /** Milliseconds. */
  readonly parts?: Readonly<Record<string, number>>;
}

type Way = (job: Traveller) => Promise<Omit<Sample, 'whole' | 'sent'>>;

/** Seconds: a gigabyte over a slow network. */
const limit = 1800;

async function done(program: string, ...args: string[]): Promise<string> {
  const { status, stdout, stderr } = await attemptWithin(limit, program, ...args);
  if (status !== 0) throw new Error(`${program} ${args.join(' ')}: ${stderr}`);
  return stdout;
}

const byHand: Way = async ({ name }) => {
  const began = performance.now();
  const export_ = ['--compress', 'none', '--export', archive];
  await done('podman', 'container', 'checkpoint', ...export_, name);
  await done('scp', '-q', archive, `${hostB}:${archive}`);
  await done('ssh', hostB, `podman container restore --import ${archive}`);
  const downtime = (performance.now() - began) / 1000;
  const bytes = statSync(archive).size;
  rmSync(archive);
  await done('ssh', hostB, `rm ${archive}`);
  return { downtime, archive: bytes };
};

function migrate(rounds: number): Way {
  return async ({ name }) => {
    const words = ['migrate', '--precopy', `${rounds}`, '--format', 'json', name, hostB];
    const report = JSON.parse(await done('kfd-checkpoint', ...words)) as {
      downtime_ms: number;
      before_ms: number | null;
      parts_ms: Record<string, number>;
    };
    // By hand nobody knows when the container stops: what podman does before counts for all.
    const downtime = (report.downtime_ms + (report.before_ms ?? 0)) / 1000;
    return { downtime, parts: report.parts_ms };
  };
}

const ways: Readonly<Record<string, Way>> = {
  'by hand': byHand,
  'nothing ahead': migrate(0),
  'one round ahead': migrate(1),
};

async function sampleOf(way: Way): Promise<Sample> {
  const job = await Traveller.start('moves', 'crun', worker);
  const [began, before] = [performance.now(), bytesSent()];
  const seen = await way(job);
  const whole = (performance.now() - began) / 1000;
  const sent = bytesSent() - before;
  const answer = await job.ask('there', 'verify');
  if (!answer.startsWith('verified ')) throw new Error(answer);
  await job.remove();
  await meetComplaintThere();
  return { ...seen, whole, sent };
}

export async function migrateBench(): Promise<Record<string, unknown>> {
  const rounds = Number(process.env['BENCH_ROUNDS'] ?? 5);
  const mbit = Number(process.env['BENCH_MBIT'] ?? Number.NaN);
  await installThere();
  await loadImageThere();
  // In memory, too: what the source keeps.
  mkdirSync(kept, { recursive: true, mode: 0o700 });
  await run('mount', '-t', 'tmpfs', '-o', 'mode=700,size=80%', 'kept', kept);
  const samples: Record<string, Sample[]> = {};
  for (let round = 0; round < rounds; round += 1) {
    for (const [name, way] of Object.entries(ways)) {
      const sample = await sampleOf(way);
      samples[name] = [...(samples[name] ?? []), sample];
      const { downtime, whole, sent, parts } = sample;
      process.stdout.write(
        `  ${name}: ${downtime.toFixed(1)} s of ${whole.toFixed(1)} s, ${(sent / 1e6).toFixed(0)} MB ` +
          `${parts === undefined ? '' : JSON.stringify(parts)}\n`,
      );
    }
  }
  const of = (name: string, member: 'downtime' | 'whole' | 'sent' | 'archive') =>
    (samples[name] ?? []).map((sample) => sample[member] ?? Number.NaN);
  const median = (name: string, member: 'downtime' | 'sent' | 'archive') =>
    spread(of(name, member)).median;
  const ratio = (name: string) => median(name, 'downtime') / median('by hand', 'downtime');
  const wire = median('nothing ahead', 'sent') / median('by hand', 'archive');
  const row = (name: string) =>
    `  ${name.padEnd(16)} stands still ${show(of(name, 'downtime'), 1)} s of ${show(of(name, 'whole'), 1)} s, ` +
    `ratio ${ratio(name).toFixed(2)}, sent ${show(
      of(name, 'sent').map((bytes) => bytes / 1e6),
      0,
    )} MB`;
  const text = [
    `${2 * half} MiB to another guest, ${mbit} Mbit/s (simulated)`,
    ...Object.keys(ways).map(row),
    `  bytes sent with nothing ahead, of those of the archive by hand: ${wire.toFixed(3)}`,
  ];
  process.stdout.write(`${text.join('\n')}\n`);
  const ratios = Object.fromEntries(Object.keys(ways).map((name) => [name, ratio(name)]));
  return { mbit, samples, ratios, wire };
}
