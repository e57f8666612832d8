/**
 * Faults as a product of operations, victims and moments, in a guest with the test build.
 * `main.js [--only=REGEX] [--cross=N]`: rows whose names match, or N of them, spread over the table. Prints the table.
 */

import { writeFileSync } from 'node:fs';
import { run } from '../e2e/support/command.js';
import { engines } from '../e2e/support/container.js';
import { haveNextRelease } from '../e2e/support/containerd.js';
import { ContainerdSubject } from './containerd.js';
import { Podman } from './podman.js';
import { daemons, nameOf, type Result, type RowEngine } from './row.js';
import { chosen } from './rows.js';
import type { Subject } from './subject.js';
import { cleanUp } from './support/leftovers.js';
import { releaseAll } from './support/points.js';
import { tryRow } from './trial.js';

// Under emulation a task that is switched to finds none of its translated code.
writeFileSync('/sys/kernel/debug/sched/base_slice_ns', '20000000');
writeFileSync('/sys/kernel/debug/sched/features', 'NO_WAKEUP_PREEMPTION');

function option(name: string): string | undefined {
  const begin = `--${name}=`;
  return process.argv.find((word) => word.startsWith(begin))?.slice(begin.length);
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
const subjects: readonly (readonly [RowEngine, Subject])[] = [
  ...engines.map((engine) => [engine, new Podman(engine)] as const),
  ...daemons
    .filter((release) => release === 'containerd' || haveNextRelease)
    .map((release) => [release, new ContainerdSubject(release)] as const),
];
const results: Result[] = [];
const count = option('cross');
const rows = chosen(
  new RegExp(option('only') ?? ''),
  count === undefined ? undefined : Number(count),
);
for (const [engine, subject] of subjects) {
  for (const row of rows.filter((one) => one.engine === engine)) {
    const result = await tryRow(row, subject).catch((error: Error) => ({
      ...{ row: nameOf(row), operation: row.operation, engine, victim: '', fault: '', stage: '' },
      ...{ outcome: 'not tried', problems: [error.stack ?? error.message] },
      ...{ upstream: [], seconds: 0, said: '' },
    }));
    results.push(result);
    print(result);
    writeFileSync('/share/faults.json', `${JSON.stringify(results, null, 1)}\n`);
    if (verdict(result) === 'ok') continue;
    await subject.forget();
    await cleanUp();
  }
  await subject.forget();
}
const many = (what: string) => results.filter((result) => verdict(result) === what).length;
console.log(
  `${results.length} rows: ${many('ok')} ok, ${many('upstream')} upstream, ${many('FAIL')} failed`,
);
process.exitCode = many('FAIL') === 0 ? 0 : 1;
