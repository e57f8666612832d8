/** What sessions of pods have logged: CRIU's logs, which name them, are containerd's. */

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { until } from '../../e2e/support/command.js';
import type { LogLine, Operation } from '../../e2e/support/session.js';

const logs = '/var/log/kfd-checkpoint';

/** The names of logs of sessions of this kind; they begin with the time. */
export function sessionLogs(operation: Operation): string[] {
  const ours = new RegExp(`Z-${operation}-\\d+\\.log$`);
  return readdirSync(logs)
    .filter((name) => ours.test(name))
    .sort();
}

/** The name of the newest of those logs. */
function newestLog(operation: Operation): string {
  const name = sessionLogs(operation).at(-1);
  assert.ok(name !== undefined, `no ${operation} session has logged`);
  return name;
}

/** The last line of that log, once its session has ended. */
async function endOf(name: string): Promise<LogLine> {
  const path = join(logs, name);
  const ended = () => {
    const lines = readFileSync(path, 'utf8')
      .split('\n')
      .filter((line) => line.endsWith('}'));
    const all = lines.map((line) => JSON.parse(line) as LogLine);
    return all.find(({ msg }) => msg === 'session ended');
  };
  return until(`the end of ${path}`, ended, 60);
}

/** The last line of the newest of those sessions, once it has ended. */
export const lastEnd = (operation: Operation): Promise<LogLine> => endOf(newestLog(operation));

/** Runs `body`, by which the restore of now is cancelled, because containerd ends its container. */
export async function endedIn(body: () => Promise<unknown>): Promise<void> {
  const name = newestLog('restore');
  await body();
  const { err } = await endOf(name);
  const shown = JSON.stringify(err);
  assert.equal(err?.code, 'E_CANCELLED', shown);
  assert.match(err.message, /the container was killed or deleted during its restore/, shown);
}

/** What a checkpoint tells whose caller has gone. containerd also removes the image directory then. */
const reasons = {
  E_CANCELLED: /the caller of the checkpoint has left containerd/,
  E_IMAGE_MISSING: /the image directory was removed/,
} as const;

/**
 * The newest checkpoint was given up because its caller has gone. Which of the signs comes first depends on how busy
 * the guest is; CRIU, which may see the removed directory first, tells the session no reason.
 */
export async function assertGivenUp(): Promise<void> {
  const { err, outcome } = await lastEnd('dump');
  const shown = JSON.stringify(err);
  assert.equal(outcome, 'abandoned', shown);
  if (err === undefined) return;
  const reason = Object.entries(reasons).find(([code]) => code === err.code)?.[1];
  assert.ok(reason?.test(err.message), shown);
}
