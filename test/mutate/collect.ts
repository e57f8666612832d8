/**
 * Takes the place of node:test in a worker: keeps the tests of one file, and runs each of them as often as asked, in
 * one process. It has what our unit tests use of node:test.
 */

import { mock } from 'node:test';

export { mock };

type Cleanup = () => unknown;

export interface Context {
  readonly name: string;
  after(cleanup: Cleanup): void;
  diagnostic(message: string): void;
  readonly mock: typeof mock;
  test(name: string, body: Body): Promise<void>;
}

/** Each test has mocks of its own. They end with it. */
const Mocks = mock.constructor as new () => typeof mock;

type Body = (t: Context) => unknown;

export interface Collected {
  readonly name: string;
  /** Rejects when the test fails. */
  run(): Promise<void>;
}

export const collected: Collected[] = [];

/** node:test's function, with or without options. */
export function test(name: string, ...rest: readonly unknown[]): void {
  const [options, body] = rest.length === 1 ? [{}, rest[0]] : rest;
  const { skip } = options as { skip?: unknown };
  if (skip) return;
  collected.push({ name, run: () => runBody(name, body as Body) });
}

async function runBody(name: string, body: Body): Promise<void> {
  const mocks = new Mocks();
  const cleanups: Cleanup[] = [];
  const context: Context = {
    name,
    mock: mocks,
    after: (cleanup) => void cleanups.push(cleanup),
    diagnostic: () => undefined,
    test: (inner, innerBody) => runBody(inner, innerBody),
  };
  try {
    await body(context);
  } finally {
    try {
      for (const cleanup of cleanups) await cleanup();
    } finally {
      // Timers, too.
      mocks.reset();
    }
  }
}

/** A worker ends after its last test; there is nothing to clean up before. */
export function after(_cleanup: Cleanup): void {}

export default test;
