/** Holds processes of the test build at a point: test/faults/stages. */

import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { until } from '../../e2e/support/command.js';
import type { Stage } from '../stages/list.js';

/** Containers have it as a bind mount: restored tasks come to points of the plugin. */
export const folder = '/run/kfd-checkpoint-stages';

/** Forgets all points; nobody is held any more. The folder itself stays: containers have it. */
export function releaseAll(): void {
  mkdirSync(folder, { recursive: true });
  for (const name of readdirSync(folder)) rmSync(join(folder, name));
}

/** Whoever comes there from now on waits. */
export function holdAt(stage: Stage): void {
  writeFileSync(join(folder, stage), '');
}

export function release(stage: Stage): void {
  rmSync(join(folder, stage), { force: true });
}

/** A session comes to its last points when the engine has ended. */
const graceMs = 5000;

/** Waits until a process stands there; false when `over` has told long enough that nobody will come. */
export function reached(stage: Stage, over: () => boolean, seconds: number): Promise<boolean> {
  const mark = join(folder, `${stage}.reached`);
  let overSince: number | undefined;
  return until(
    `a process at ${stage}`,
    () => {
      if (existsSync(mark) && readFileSync(mark, 'utf8') !== '') return 'here' as const;
      if (!over()) return false;
      overSince ??= performance.now();
      return performance.now() - overSince > graceMs && ('over' as const);
    },
    seconds,
    20,
  ).then((how) => how === 'here');
}
