/**
 * npm run mutate -- PLACE...: switches every condition, operator, result and statement of the compiled files below
 * PLACE off or over, one at a time, and runs the unit tests that come to it. Prints what no test notices, and the
 * score. Status 1 below the least score.
 */

import { readFile, writeFile } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { coverageOf, type TestFile } from './coverage.js';
import { judgeFile, judgeLoading, type Verdict } from './judge.js';
import { Judged } from './judged.js';
import { type Fault, reportOn } from './report.js';
import { testFilesFor } from './test-files.js';
import { type Mutant, makeTree, work } from './tree.js';

/** Test files that judge one mutant of code that runs while modules load; each needs a process. */
const filesForLoading = 4;

const say = (text: string) => process.stderr.write(`${text}\n`);

async function inParallel<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const queue = [...items];
  const lane = async () => {
    for (let item = queue.shift(); item !== undefined; item = queue.shift()) await work(item);
  };
  await Promise.all(Array.from({ length: availableParallelism() }, lane));
}

async function testFiles(mutants: readonly Mutant[]): Promise<TestFile[]> {
  const mutated = new Set(mutants.map(({ file }) => `dist/${file.replace(/\.ts$/, '.js')}`));
  const files: TestFile[] = [];
  await inParallel(await testFilesFor(mutated), async (path) => {
    const file = await coverageOf(path, say);
    if (file !== undefined) files.push(file);
  });
  const time = ({ tests }: TestFile) => tests.reduce((sum, { ms }) => sum + ms, 0);
  return files.sort((a, b) => time(a) - time(b));
}

/** `progress` is called after each test file. */
async function judge(
  mutants: readonly Mutant[],
  files: readonly TestFile[],
  progress: (verdicts: ReadonlyMap<number, Verdict>) => Promise<void>,
): Promise<void> {
  const alive = new Set(mutants.map(({ id }) => id));
  const verdicts = new Map<number, Verdict>();
  /** How many mutants of a file the tests of another file notice. */
  const counts = new Map<string, number>();
  const pair = ({ path }: TestFile, id: number) => `${path} ${mutants[id]?.file}`;
  const noticed = (file: TestFile, id: number, verdict: Verdict) => {
    alive.delete(id);
    verdicts.set(id, verdict);
    counts.set(pair(file, id), (counts.get(pair(file, id)) ?? 0) + 1);
  };
  // One file after another: none judges what another one has noticed.
  for (const file of files) {
    const begun = performance.now();
    await judgeFile(file, alive, (id, verdict) => noticed(file, id, verdict));
    const seconds = Math.round((performance.now() - begun) / 1000);
    say(`${alive.size} of ${mutants.length} are left: ${file.path} (${seconds} s)`);
    await progress(verdicts);
  }
  await inParallel([...alive], async (id) => {
    const loading = files.filter((file) => file.loading.has(id) && file.tests.length > 0);
    // The tests of its subject first.
    const count = (file: TestFile) => counts.get(pair(file, id)) ?? 0;
    loading.sort((a, b) => count(b) - count(a));
    for (const file of loading.slice(0, filesForLoading)) {
      const verdict = await judgeLoading(file, id);
      if (verdict !== undefined) return noticed(file, id, verdict);
    }
  });
  await progress(verdicts);
}

function faultsOf(
  mutants: readonly Mutant[],
  files: readonly TestFile[],
  verdicts: ReadonlyMap<number, Verdict>,
): Fault[] {
  const met = new Set(
    files.flatMap(({ loading, tests }) => [...loading, ...tests.flatMap(({ hits }) => hits)]),
  );
  return mutants.map(({ id, file, line, from, to }) => {
    const verdict = verdicts.get(id) ?? (met.has(id) ? 'unnoticed' : 'unmet');
    const fate = verdict === 'crashed' ? 'failed' : verdict;
    return { file, line, change: `${from} -> ${to === '' ? 'nothing' : to}`, fate };
  });
}

const places = process.argv.slice(2).map((place) => place.replace(/\/$/, ''));
if (places.length === 0) {
  say('usage: npm run mutate -- PLACE... (for example src/os), or npm run mutate -- native');
  process.exit(2);
}
const mutants = await makeTree(places);
say(`${mutants.length} mutants`);
const files = await testFiles(mutants);
const reportPath = join(work, 'report.txt');
const judged = Judged.fromList();
let suffices = false;
await judge(mutants, files, async (verdicts) => {
  const report = reportOn(faultsOf(mutants, files, verdicts), judged);
  suffices = report.suffices;
  await writeFile(reportPath, report.text);
});
process.stdout.write(await readFile(reportPath));
process.exitCode = suffices ? 0 : 1;
