/** Scenarios belong to parts, which are files of test/e2e. Names of tests begin with their part's. */

import { type TestContext, type TestOptions, test } from 'node:test';

let part = '';

/** Loads a part, a file of this folder of test. Its tests run in their turn. */
export async function load(name: string, folder = 'e2e'): Promise<void> {
  part = name;
  await import(`../../${folder}/${name}.js`);
}

/** A test of the part that is being loaded. */
export function partTest(
  name: string,
  options: TestOptions,
  body: (context: TestContext) => Promise<void>,
): void {
  test(`${part}: ${name}`, options, body);
}
