/** `npm run bench -- native [DIR]`: the content pipeline over a modelled link and real files, without a GPU or a guest. */

import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import { barChart } from './chart.js';
import { show, spread } from './stats.js';

interface Sample {
  readonly case: string;
  readonly bytes: number;
  readonly seconds: number;
  readonly resident: number;
  readonly slowest?: string;
}

const mib = 1024;
const linkMBs = 4000;
const runs = 5;
const out = 'build/bench';

const dir = process.argv[2] ?? tmpdir();
const text = execFileSync('build/native/pipeline', [dir, `${mib}`, `${linkMBs}`, `${runs}`], {
  encoding: 'utf8',
});
const samples = text
  .trim()
  .split('\n')
  .map((line) => JSON.parse(line) as Sample);

const cases = [...new Set(samples.map((sample) => sample.case))];
const of = (name: string) => samples.filter((sample) => sample.case === name);
const rates = (name: string) => of(name).map(({ bytes, seconds }) => bytes / 1e6 / seconds);
const rate = (name: string) => spread(rates(name)).median;
const slower = (...names: string[]) => Math.min(linkMBs, ...names.map(rate));

process.stdout.write(
  `modelled link of ${linkMBs} MB/s, files in ${dir}, ${cpus().length} processors, ${mib} MiB, medians (spread)\n`,
);
for (const name of cases) {
  const slowest = [...new Set(of(name).flatMap((sample) => sample.slowest ?? []))].join(', ');
  const resident = Math.max(...of(name).map((sample) => sample.resident));
  process.stdout.write(
    `  ${name.padEnd(22)} ${show(rates(name), 0)} MB/s${slowest === '' ? '' : `; slowest: ${slowest}`}` +
      `${name.includes('cold') ? `; resident before: ${(100 * resident).toFixed(1)} % at most` : ''}\n`,
  );
}

const goals = [
  ['restore warm to serial', rate('restore_warm') / rate('restore_warm_serial'), 2.2],
  ['restore warm to the slower of read and link', rate('restore_warm') / slower('read_warm'), 0.9],
  ['restore cold to O_DIRECT read', rate('restore_cold') / slower('read_cold_direct'), 0.9],
  ['checkpoint to the slower of write and link', rate('checkpoint') / slower('write_direct'), 0.9],
  ['small BOs to one, restore', rate('small_restore_warm') / rate('one_restore_warm'), 0.8],
  ['small BOs to one, checkpoint', rate('small_checkpoint') / rate('one_checkpoint'), 0.8],
] as const;
for (const [name, value, goal] of goals) {
  const verdict = value >= goal ? 'reached' : 'NOT reached';
  process.stdout.write(`  ${name}: ${value.toFixed(2)}, goal ${goal}: ${verdict}\n`);
}

mkdirSync(out, { recursive: true });
writeFileSync(
  `${out}/native.json`,
  `${JSON.stringify(
    {
      modelled: true,
      link_mb_s: linkMBs,
      processors: cpus().length,
      goals: goals.map(([name, value, goal]) => ({ name, value, goal })),
      samples,
    },
    null,
    2,
  )}\n`,
);
writeFileSync(
  `${out}/native.svg`,
  barChart(
    `Content pipeline, modelled link of ${linkMBs} MB/s (MB/s; median, spread)`,
    cases.map((name) => ({ name, ...spread(rates(name)) })),
  ),
);
