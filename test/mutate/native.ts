/**
 * npm run mutate -- native [FOLDER...]: takes the guards of native/core's parsers away, one at a time, and runs the
 * native tests that come to them. Everything is built once. FOLDER: of native/core. Prints the guards that no test
 * misses, and the score of each file. Status 1 below the least score.
 */

import { Judged } from './judged.js';
import { fateOf, measuredCases } from './native-cases.js';
import { build, compile, plant } from './native-tree.js';
import { type Fault, reportOn } from './report.js';

/** Folders of native/core with parsers. */
const allFolders = ['pages', 'kfd', 'drm', 'wire', 'os'];

const wanted = process.argv.slice(2);
if (!wanted.every((folder) => allFolders.includes(folder))) {
  process.stderr.write(`usage: npm run mutate -- native [${allFolders.join('|')}]...\n`);
  process.exit(2);
}
// All of them in any case: so that nothing is compiled again for another FOLDER.
const all = plant(allFolders);
const folderOf = (file: string) => file.split('/')[2] ?? '';
const planted = all.filter(({ file }) => wanted.length === 0 || wanted.includes(folderOf(file)));
compile();
const cases = measuredCases(build);
process.stderr.write(`${planted.length} guards, ${cases.length} test cases\n`);
const faults: Fault[] = [];
for (const [index, { id, file, line, condition }] of planted.entries()) {
  if (index % 20 === 0) process.stderr.write(`${index} of ${planted.length} guards\n`);
  faults.push({ file, line, change: condition, fate: fateOf(build, id, cases) });
}
const report = reportOn(faults, Judged.fromList());
process.stdout.write(report.text);
process.exitCode = report.suffices ? 0 : 1;
