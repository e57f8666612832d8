/**
 * Faults as a product of operations, victims and moments, in a guest with the test build. Prints the table.
 * `main.js [--only=REGEX] [--count=N] [--again]`: rows whose names match, or N of them, spread over the table; those
 * alone that were not right in the run before.
 */

import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { calmScheduler, loadImage } from '../e2e/support/guest.js';
import { nameOf, type Result } from './row.js';
import { chosen } from './rows.js';
import { absent, describe, installHeld, tryAll, verdict } from './table.js';

calmScheduler();

function option(name: string): string | undefined {
  const begin = `--${name}=`;
  return process.argv.find((word) => word.startsWith(begin))?.slice(begin.length);
}

await Promise.all([loadImage(), installHeld()]);
const file = '/share/faults.json';
const again = process.argv.includes('--again') && existsSync(file);
const before = again ? (JSON.parse(readFileSync(file, 'utf8')) as Result[]) : [];
const right = before.filter((result) => verdict(result) !== 'FAIL');
const count = option('count');
const rows = chosen(
  new RegExp(option('only') ?? ''),
  count === undefined ? undefined : Number(count),
).filter((row) => !right.some((result) => result.row === nameOf(row)));
if (rows.length === 0) throw new Error('no such row');
const results: Result[] = [...right];
await tryAll(rows, (result) => {
  results.push(result);
  console.log(describe(result));
  writeFileSync(file, `${JSON.stringify(results, null, 1)}\n`);
});
for (const row of rows) {
  const why = absent(row.engine);
  if (why !== undefined) console.log(`skipped  ${nameOf(row)}: ${why}`);
}
const counts = (['ok', 'upstream', 'FAIL', 'control'] as const).map(
  (what) => `${results.filter((result) => verdict(result) === what).length} ${what}`,
);
console.log(`${results.length} rows: ${counts.join(', ')}`);
process.exitCode = results.some((result) => verdict(result) === 'FAIL') ? 1 : 0;
