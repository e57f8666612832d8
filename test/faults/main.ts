/**
 * Faults as a product of operations, victims and moments, in a guest with the test build.
 * `main.js [--only=REGEX] [--cross=N]`: rows whose names match, or N of them, spread over the table. Prints the table.
 */

import { writeFileSync } from 'node:fs';
import { run } from '../e2e/support/command.js';
import { type Engine, engines } from '../e2e/support/container.js';
import { Podman } from './podman.js';
import { nameOf, type Result, type Row } from './row.js';
import { podmanRows } from './rows.js';
import { cleanUp } from './support/leftovers.js';
import { releaseAll } from './support/points.js';
import { tryRow } from './trial.js';

writeFileSync('/sys/kernel/debug/sched/base_slice_ns', '20000000');
writeFileSync('/sys/kernel/debug/sched/features', 'NO_WAKEUP_PREEMPTION');

function option(name: string): string | undefined {
  const begin = `--${name}=`;
  return process.argv.find((word) => word.startsWith(begin))?.slice(begin.length);
}

function wanted(): readonly Row[] {
  const only = option('only');
  const rows =
    only === undefined
      ? podmanRows
      : podmanRows.filter((row) => new RegExp(only).test(nameOf(row)));
  const count = Number(option('cross') ?? rows.length);
  return rows.filter(
    (_, i) => Math.floor((i * count) / rows.length) !== Math.floor(((i - 1) * count) / rows.length),
  );
}

function verdict({ problems, upstream }: Result): string {
  if (problems.length > 0) return 'FAIL';
  return upstream.length > 0 ? 'upstream' : 'ok';
}

function print(result: Result): void {
  const { row, outcome, problems, upstream, seconds, said } = result;
  console.log(`${verdict(result).padEnd(8)} ${row}: ${outcome} (${seconds} s)`);
  for (const problem of problems) console.log(`         - ${problem}`);
  for (const reason of upstream) console.log(`         upstream: ${reason}`);
  if (problems.length > 0) console.log(`         said: ${said}`);
}

await Promise.all([
  run('podman', 'load', '-q', '-i', '/repo/build/lab/programs/image.tar'),
  run('bash', '/repo/packaging/install.sh', '/repo/build/stage-held.tar'),
]);
await run('kfd-checkpoint', 'configure');
releaseAll();
const lanes = new Map<Engine, Podman>(engines.map((engine) => [engine, new Podman(engine)]));
const results: Result[] = [];
for (const engine of engines) {
  for (const row of wanted().filter((one) => one.engine === engine)) {
    const podman = lanes.get(engine) as Podman;
    const result = await tryRow(row, podman).catch((error: Error) => ({
      ...{ row: nameOf(row), operation: row.operation, engine, victim: '', fault: '', stage: '' },
      ...{ outcome: 'not tried', problems: [error.stack ?? error.message] },
      ...{ upstream: [], seconds: 0, said: '' },
    }));
    results.push(result);
    print(result);
    writeFileSync('/share/faults.json', `${JSON.stringify(results, null, 1)}\n`);
    if (verdict(result) !== 'ok') {
      await podman.forget();
      await cleanUp();
    }
  }
  await lanes.get(engine)?.forget();
}
const count = (what: string) => results.filter((result) => verdict(result) === what).length;
console.log(
  `${results.length} rows: ${count('ok')} ok, ${count('upstream')} upstream, ${count('FAIL')} failed`,
);
process.exitCode = count('FAIL') === 0 ? 0 : 1;
