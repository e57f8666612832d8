/**
 * node worker.js FILE HITS: loads one test file, and runs its tests for each order of the mutation tester. HITS: a file
 * for the mutants of child processes.
 */

import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { register } from 'node:module';
import { pathToFileURL } from 'node:url';
import { activate, hitsName, takeHits } from './active.js';
import type { Collected } from './collect.js';
import type { Order, Report, TestFacts } from './messages.js';

const [, , testFile, childHits] = process.argv as [string, string, string, string];
process.env[hitsName] = childHits;

function report(message: Report): void {
  process.send?.(message);
}

/** What this process met, and its child processes. */
function allHits(): { ids: number[]; evaluations: number } {
  const { ids, evaluations } = takeHits();
  if (!existsSync(childHits)) return { ids, evaluations };
  const others = readFileSync(childHits, 'utf8').split('\n').filter(Boolean).map(Number);
  writeFileSync(childHits, '');
  return { ids: [...new Set([...ids, ...others])], evaluations };
}

async function runOne(test: Collected, ms: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error('late')), ms);
  });
  try {
    await Promise.race([test.run(), late]);
  } finally {
    clearTimeout(timer);
  }
}

async function obey(tests: readonly Collected[], order: Order): Promise<Report> {
  activate(order.mutant, order.maximum);
  takeHits();
  const facts: TestFacts[] = [];
  for (const index of order.tests) {
    const test = tests[index] as Collected;
    const begun = performance.now();
    try {
      await runOne(test, order.ms);
    } catch (error) {
      return { kind: 'failed', index, test: test.name, reason: String(error) };
    }
    const ms = performance.now() - begun;
    const { ids, evaluations } = allHits();
    facts.push({ name: test.name, ms, evaluations, hits: ids });
  }
  return { kind: 'passed', facts };
}

const crashed = (error: unknown) => report({ kind: 'crashed', reason: String(error) });
process.on('uncaughtException', crashed);
process.on('unhandledRejection', crashed);

register('./node-test-hook.js', import.meta.url);
// The hook maps node:test of the test file to this same module.
const { collected } = await import('./collect.js');
await import(pathToFileURL(testFile).href);
report({ kind: 'loaded', hits: takeHits().ids, tests: collected.length });
process.on('message', (order: Order) => {
  void obey(collected, order).then(report);
});
