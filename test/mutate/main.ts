/**
 * npm run mutate -- [--judged] [--tests PATTERN] PLACE...: switches every condition, operator, result and statement of
 * the compiled files below PLACE off or over, one at a time, and runs the unit tests that come to it. Prints what no
 * test notices, and the score. Status 1 below the least score. build/mutate/report.txt has the report so far after each
 * test file.
 *
 * --judged: also runs the survivors of test/mutate/judged.list. A survivor takes all tests that come to it.
 * --tests PATTERN: only test files whose path fits the regular expression. The score can only be too low then.
 */

import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { Judged, numbered } from './judged.js';
import { reportOn } from './report.js';
import { faultOf, Run } from './run.js';
import { testGroupsFor } from './test-files.js';
import { type Mutant, makeTree, work } from './tree.js';

const say = (text: string) => process.stderr.write(`${text}\n`);

function judgedIn(mutants: readonly Mutant[], judged: Judged): Set<number> {
  const named = numbered(mutants.map((mutant) => ({ ...faultOf(mutant), id: mutant.id })));
  const known = named.filter((one) => judged.reasonOf(one) !== undefined);
  return new Set(known.map(({ id }) => id));
}

const usage = 'npm run mutate -- [--judged] [--tests PATTERN] PLACE... (for example src/os)';

function commandLine() {
  const options = { judged: { type: 'boolean' }, tests: { type: 'string', default: '' } } as const;
  try {
    const { values, positionals } = parseArgs({ options, allowPositionals: true });
    const places = positionals.map((place) => place.replace(/\/$/, ''));
    if (places.length > 0) {
      return { withJudged: values.judged === true, pattern: new RegExp(values.tests), places };
    }
  } catch (error) {
    say((error as Error).message);
  }
  say(`usage: ${usage}, or npm run mutate -- native`);
  process.exit(2);
}

const { withJudged, pattern, places } = commandLine();
const mutants = await makeTree(places);
const judged = Judged.fromList();
const passedOver = withJudged ? new Set<number>() : judgedIn(mutants, judged);
say(`${mutants.length} mutants; ${passedOver.size} judged survivors are not run`);
const run = new Run(mutants, passedOver, say);
const reportPath = join(work, 'report.txt');
let suffices = false;
const progress = async () => {
  const report = reportOn(run.faults(), judged);
  suffices = report.suffices;
  await writeFile(reportPath, report.text);
};
const mutated = new Set(mutants.map(({ file }) => `dist/${file.replace(/\.ts$/, '.js')}`));
for (const paths of await testGroupsFor(mutated)) {
  const chosen = paths.filter((path) => pattern.test(path));
  await run.judge(chosen, progress);
}
await run.judgeLoading();
await progress();
process.stdout.write(await readFile(reportPath));
process.exitCode = suffices ? 0 : 1;
