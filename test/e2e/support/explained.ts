/** A failure must name its reason in the engine's output or in a log that this output leads to. */

import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { attempt, type Outcome } from './command.js';
import type { Container } from './container.js';
import { criuLog, namedSessionLog, type Operation } from './session.js';

/** Asserts that `reason` can be found the way an operator would look for it. */
export async function assertExplained(
  job: Container,
  operation: Operation,
  outcome: Outcome,
  reason: RegExp,
): Promise<void> {
  const texts = [outcome.stderr];
  // The engine names CRIU's log, which is otherwise where docs/troubleshooting.md says; CRIU's log names ours where
  // there was a session.
  const { stdout: folder } = await attempt('podman', 'inspect', '-f', '{{.StaticDir}}', job.name);
  const named = outcome.stderr.includes(`${operation}.log`);
  if (named || folder === job.bundle) texts.push(criuLog(job, operation));
  const session = namedSessionLog(texts.join('\n'));
  if (session !== undefined && existsSync(session)) texts.push(readFileSync(session, 'utf8'));
  const found = texts.some((text) => reason.test(text));
  assert.ok(found, `no ${reason} in what podman said or pointed to:\n${outcome.stderr}`);
}
