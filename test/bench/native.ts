/**
 * `npm run bench -- native [DIR]`: the content pipeline over a modelled link and real files, without a GPU or a
 * guest.
 */

import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import { barChart } from './chart.js';
import { show, spread } from './stats.js';
import { type CopySample, reportSubmissions } from './submissions.js';

interface Sample extends CopySample {
  readonly resident: number;
  /** Of transfers alone; microseconds, of all workers together. */
  readonly slowest?: string;
  readonly file_us?: number;
  readonly code_us?: number;
  readonly hash_us?: number;
}

const mib = 1024;
/** What 16 lanes of PCIe 3.0 carry in practice, of 15,750 MB/s. */
const linkMBs = 12_000;
const runs = 6;
/** With and without checksums: disks and neighbours vary by far more than what they cost. */
const pairs = 12;
const out = 'build/bench';
const dir = process.argv[2] ?? tmpdir();

function samplesOf(program: string, count: number, ...more: string[]): Sample[] {
  const args = [dir, mib, linkMBs, count, ...more].map(String);
  const text = execFileSync(`build/native/${program}`, args, { encoding: 'utf8' });
  return text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Sample);
}

/** A case at another rate of the link is a case of its own. */
const nameOf = ({ case: name, link_mb_s: link }: Sample) =>
  link === linkMBs ? name : `${name} ${link}`;

const samples = samplesOf('pipeline', runs);
const hashed: Sample[] = [];
const unhashed: Sample[] = [];
for (let run = 0; run < pairs; run++) {
  // In turn, so that both see the same disk and the same neighbours, and each comes first as often as the other.
  const without = () => unhashed.push(...samplesOf('pipeline_unhashed', 1, 'transfers'));
  if (run % 2 === 0) without();
  hashed.push(...samplesOf('pipeline', 1, 'transfers'));
  if (run % 2 === 1) without();
}

/** Copies alone are another link and another clock. */
const transfers = samples.filter((sample) => !sample.case.startsWith('copies'));
const cases = [...new Set(transfers.map(nameOf))];
const of = (name: string, all = transfers) => all.filter((sample) => nameOf(sample) === name);
const rates = (name: string, all = transfers) =>
  of(name, all).map(({ bytes, seconds }) => bytes / 1e6 / seconds);
const rate = (name: string, all = transfers) => spread(rates(name, all)).median;
const slower = (...names: string[]) => Math.min(linkMBs, ...names.map((name) => rate(name)));

process.stdout.write(
  `modelled link of ${linkMBs} MB/s, files in ${dir}, ${cpus().length} processors, ${mib} MiB, medians (spread)\n`,
);
for (const name of cases) {
  const slowest = [...new Set(of(name).flatMap((sample) => sample.slowest ?? []))].join(', ');
  const resident = Math.max(...of(name).map((sample) => sample.resident));
  process.stdout.write(
    `  ${name.padEnd(24)} ${show(rates(name), 0)} MB/s${slowest === '' ? '' : `; slowest: ${slowest}`}` +
      `${name.includes('cold') ? `; resident before: ${(100 * resident).toFixed(1)} % at most` : ''}\n`,
  );
}

/**
 * What can be had of the serial loop at a link of `link` MB/s: the link all the time, or reading by all processors,
 * whichever is slower. The loop reads and copies in turn, so its time less that of the link is that of its reads.
 */
function bound(link: number, suffix: string) {
  const serial = rate(`restore_warm_serial${suffix}`);
  const most = Math.min(link, rate('read_warm')) / serial;
  return { link, most, is: rate(`restore_warm${suffix}`) / serial };
}
const links = [...new Set(transfers.map(({ link_mb_s: link }) => link))].sort((a, b) => a - b);
const bounds = links.map((link) => bound(link, link === linkMBs ? '' : ` ${link}`));
process.stdout.write('restore warm to serial, by the rate of the link:\n');
for (const { link, most, is } of bounds) {
  process.stdout.write(
    `  ${`${link} MB/s`.padEnd(24)} ${is.toFixed(2)}, at most ${most.toFixed(2)} where link and reads never wait\n`,
  );
}

const submissions = reportSubmissions(samples, (text) => process.stdout.write(text));

/** Parts of the time of a transfer's workers, and of its wall time, that checksums take. */
function hashShares(name: string) {
  const shares = of(name).map(({ hash_us = 0, file_us = 0, code_us = 0, seconds }) => ({
    busy: hash_us / (file_us + code_us),
    wall: hash_us / (seconds * 1e6 * cpus().length),
  }));
  const median = (key: 'busy' | 'wall') => spread(shares.map((share) => share[key])).median;
  return { name, busy: median('busy'), processors: median('wall') };
}
/** By how much checksums lengthen a transfer; of the best runs, for neighbours and disks vary by far more than that. */
const hashCost = (name: string) =>
  spread(rates(name, unhashed)).max / spread(rates(name, hashed)).max - 1;
const checksums = ['checkpoint', 'restore_warm'].map((name) => ({
  ...hashShares(name),
  without_mb_s: spread(rates(name, unhashed)),
  with_mb_s: spread(rates(name, hashed)),
  cost: hashCost(name),
}));
const percent = (part: number) => `${(100 * part).toFixed(1)} %`;
process.stdout.write('checksums:\n');
for (const { name, busy, processors } of checksums) {
  process.stdout.write(
    `  ${name.padEnd(24)} ${show(rates(name, hashed), 0)} MB/s, without ${show(rates(name, unhashed), 0)}; ` +
      `${percent(busy)} of what workers do, ${percent(processors)} of the processors' time\n`,
  );
}

const least = [
  ['restore warm to serial', rate('restore_warm') / rate('restore_warm_serial'), 2.2],
  ['restore warm to the slower of read and link', rate('restore_warm') / slower('read_warm'), 0.95],
  ['restore cold to O_DIRECT read', rate('restore_cold') / slower('read_cold_direct'), 0.9],
  ['checkpoint to the slower of write and link', rate('checkpoint') / slower('write_direct'), 0.9],
  ['small BOs to one, restore', rate('small_restore_warm') / rate('one_restore_warm'), 0.8],
  ['small BOs to one, checkpoint', rate('small_checkpoint') / rate('one_checkpoint'), 0.8],
] as const;
const most = [
  ['time of a fast link that copies leave idle', submissions.idle.slots.median, 0.03],
  ['time that checksums add to a checkpoint', hashCost('checkpoint'), 0.05],
  ['time that checksums add to a restore, warm', hashCost('restore_warm'), 0.05],
] as const;
const goals = [
  ...least.map(([name, value, goal]) => ({ name, value, goal, reached: value >= goal })),
  ...most.map(([name, value, goal]) => ({ name, value, at_most: goal, reached: value <= goal })),
];
const [here] = bounds.filter(({ link }) => link === linkMBs);
process.stdout.write('goals:\n');
for (const goal of goals) {
  const limit = 'goal' in goal ? `${goal.goal}` : `${goal.at_most} at most`;
  const held =
    !goal.reached && goal.name === 'restore warm to serial'
      ? `: the link, at most ${here?.most.toFixed(2)}`
      : '';
  process.stdout.write(
    `  ${goal.name}: ${goal.value.toFixed(2)}, goal ${limit}: ${goal.reached ? 'reached' : 'NOT reached'}${held}\n`,
  );
}

mkdirSync(out, { recursive: true });
writeFileSync(
  `${out}/native.json`,
  `${JSON.stringify(
    {
      modelled: true,
      link_mb_s: linkMBs,
      processors: cpus().length,
      goals,
      to_serial_by_link: bounds,
      submissions,
      checksums,
      samples,
    },
    null,
    2,
  )}\n`,
);
writeFileSync(
  `${out}/native.svg`,
  barChart(
    `Content pipeline, modelled link of ${linkMBs} MB/s or as named (MB/s; median, spread)`,
    cases.map((name) => ({ name, ...spread(rates(name)) })),
  ),
);
