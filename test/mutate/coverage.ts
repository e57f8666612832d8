/** A run of each test file without a mutant: which mutants each test comes to, and how long it takes. */

import type { TestFacts } from './messages.js';
import { Worker } from './worker-process.js';

/** Milliseconds for a test on a busy machine. */
const testMs = 300_000;

export interface TestFile {
  readonly path: string;
  /** Mutants that the file comes to while it loads. They need a process each. */
  readonly loading: ReadonlySet<number>;
  /** Without tests that failed. */
  readonly tests: readonly (TestFacts & { readonly index: number })[];
}

/** `warn` hears of tests that fail without a mutant: they cannot judge one. */
export async function coverageOf(
  path: string,
  warn: (text: string) => void,
): Promise<TestFile | undefined> {
  let worker = new Worker(path);
  try {
    const loaded = await worker.loaded();
    if (loaded.kind !== 'loaded') {
      warn(`${path} does not load: ${JSON.stringify(loaded)}`);
      return undefined;
    }
    const tests: (TestFacts & { index: number })[] = [];
    for (let index = 0; index < loaded.tests; index++) {
      const order = { tests: [index], mutant: -1, maximum: Number.MAX_SAFE_INTEGER, ms: testMs };
      const report = await worker.run(order);
      if (report.kind === 'passed') {
        tests.push(...report.facts.map((facts) => ({ ...facts, index })));
        continue;
      }
      warn(`${path}: a test fails without a mutant: ${JSON.stringify(report)}`);
      worker.end();
      worker = new Worker(path);
      await worker.loaded();
    }
    return { path, loading: new Set(loaded.hits), tests };
  } finally {
    worker.end();
  }
}
