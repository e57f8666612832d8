/** Functions of Node's modules that do something else in a test. */

import { syncBuiltinESMExports } from 'node:module';
import type { TestContext } from 'node:test';

/** Gives a module, as its default export, these functions until the end of the test. */
export function patched<Module extends object>(
  t: Pick<TestContext, 'after'>,
  module: Module,
  over: Partial<Module>,
): void {
  const names = Object.keys(over) as (keyof Module)[];
  const real = names.map((name) => [name, module[name]]);
  const set = (members: object) => {
    Object.assign(module, members);
    syncBuiltinESMExports();
  };
  set(over);
  t.after(() => set(Object.fromEntries(real)));
}
