/**
 * Faults as a product of operations, victims and moments, in a guest with the test build. Prints the table.
 * `main.js [--only=REGEX] [--count=N]`: rows whose names match, or N of them, spread over the table.
 */

import { writeFileSync } from 'node:fs';
import { run } from '../e2e/support/command.js';
import { nameOf, type Result } from './row.js';
import { chosen } from './rows.js';
import { absent, describe, installHeld, tryAll, verdict } from './table.js';

// Under emulation a task that is switched to finds none of its translated code.
writeFileSync('/sys/kernel/debug/sched/base_slice_ns', '20000000');
writeFileSync('/sys/kernel/debug/sched/features', 'NO_WAKEUP_PREEMPTION');

function option(name: string): string | undefined {
  const begin = `--${name}=`;
  return process.argv.find((word) => word.startsWith(begin))?.slice(begin.length);
}

await Promise.all([
  run('podman', 'load', '-q', '-i', '/repo/build/lab/programs/image.tar'),
  installHeld(),
]);
const count = option('count');
const rows = chosen(
  new RegExp(option('only') ?? ''),
  count === undefined ? undefined : Number(count),
);
if (rows.length === 0) throw new Error('no row has such a name');
const results: Result[] = [];
await tryAll(rows, (result) => {
  results.push(result);
  console.log(describe(result));
  writeFileSync('/share/faults.json', `${JSON.stringify(results, null, 1)}\n`);
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
