/** A failure must name its reason in the engine's output or in a log that this output leads to. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Outcome } from './command.js';
import type { Container } from './container.js';
import { sessionLogs } from './product.js';

/** Asserts that `reason` can be found the way an operator would look for it. */
export function assertExplained(
  job: Container,
  operation: 'dump' | 'restore',
  outcome: Outcome,
  reason: RegExp,
): void {
  const criuLog = join(job.bundle(), `${operation}.log`);
  const texts = [outcome.stderr];
  // The engine names CRIU's log; CRIU's log names ours where there was a session.
  if (outcome.stderr.includes(`${operation}.log`)) texts.push(readFileSync(criuLog, 'utf8'));
  const session = /session log: (\S+\.log)/.exec(texts.join('\n'))?.[1];
  if (session !== undefined && sessionLogs(operation).includes(session)) {
    texts.push(readFileSync(session, 'utf8'));
  }
  const found = texts.some((text) => reason.test(text));
  assert.ok(found, `no ${reason} in what podman said or pointed to:\n${outcome.stderr}`);
}
