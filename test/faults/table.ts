/** Goes through rows, engine by engine, and tells what became of each. */

import { run } from '../e2e/support/command.js';
import { engines } from '../e2e/support/container.js';
import { haveNextRelease } from '../e2e/support/containerd.js';
import { ContainerdSubject } from './containerd.js';
import { Migration } from './migration.js';
import { PlainSubject } from './plain.js';
import { Podman } from './podman.js';
import {
  daemons,
  isControl,
  migrateEngines,
  nameOf,
  plainEngines,
  type Result,
  type Row,
  type RowEngine,
} from './row.js';
import type { Subject } from './subject.js';
import { cleanUp } from './support/leftovers.js';
import { releaseAll } from './support/points.js';
import { tryRow } from './trial.js';

/** Installs the test build, as an operator installs a package. */
export async function installHeld(): Promise<void> {
  await run('bash', '/repo/packaging/install.sh', '/repo/build/stage-held.tar');
  await run('kfd-checkpoint', 'configure');
  releaseAll();
}

/** What the row shows of this product; a control shows others' failures. */
export function verdict(result: Result): 'ok' | 'upstream' | 'control' | 'FAIL' {
  const { problems, upstream } = result;
  if (isControl(result)) return 'control';
  if (problems.length > 0) return 'FAIL';
  return upstream.length > 0 ? 'upstream' : 'ok';
}

/** Lines of the table for one result. */
export function describe(result: Result): string {
  const { row, outcome, problems, upstream, seconds, said } = result;
  return [
    `${verdict(result).padEnd(8)} ${row}: ${outcome} (${seconds} s)`,
    ...problems.map((problem) => `         - ${problem}`),
    ...upstream.map((reason) => `         upstream: ${reason}`),
    ...(problems.length > 0 ? [`         said: ${said}`] : []),
  ].join('\n');
}

const subjects: Readonly<Record<RowEngine, () => Subject>> = {
  crun: () => new Podman('crun'),
  runc: () => new Podman('runc'),
  containerd: () => new ContainerdSubject('containerd'),
  'next containerd': () => new ContainerdSubject('next containerd'),
  'plain crun': () => new PlainSubject('crun'),
  'plain runc': () => new PlainSubject('runc'),
  'crun to second': () => new Migration('crun'),
  'runc to second': () => new Migration('runc'),
};

/** Why rows of this engine cannot be tried in this guest; undefined if they can. */
export function absent(engine: RowEngine): string | undefined {
  const missing = engine === 'next containerd' && !haveNextRelease;
  return missing ? 'there was no second containerd when the guest was made' : undefined;
}

/** Tries those that can be, the rows of an engine on one container as long as nothing is wrong. */
export async function tryAll(rows: readonly Row[], tell: (result: Result) => void): Promise<void> {
  for (const engine of [...engines, ...daemons, ...migrateEngines, ...plainEngines]) {
    const mine = rows.filter((row) => row.engine === engine && absent(engine) === undefined);
    if (mine.length === 0) continue;
    const subject = subjects[engine]();
    for (const row of mine) {
      const result = await tryRow(row, subject).catch((error: Error) => notTried(row, error));
      tell(result);
      if (!result.sound) await subject.forget();
      if (verdict(result) !== 'ok') await cleanUp(!result.sound);
    }
    await subject.forget();
  }
}

function notTried(row: Row, error: Error): Result {
  return {
    row: nameOf(row),
    operation: row.operation,
    engine: row.engine,
    victim: '',
    fault: '',
    stage: '',
    outcome: 'not tried',
    problems: [error.stack ?? error.message],
    upstream: [],
    sound: false,
    seconds: 0,
    said: '',
  };
}
