/** Steps of a test, one after the other; one that fails ends the test. */

import type { TestContext } from 'node:test';

export type Step = (name: string, body: () => Promise<void>) => Promise<void>;

/** Each is a test of its own, and throws what it has failed with. */
export function stepsOf(suite: TestContext): Step {
  return async (name, body) => {
    let failure: unknown;
    await suite.test(name, () =>
      body().catch((error) => {
        failure = error;
        throw error;
      }),
    );
    if (failure !== undefined) throw failure;
  };
}
