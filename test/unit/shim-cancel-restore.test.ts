import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir } from 'node:fs/promises';
import { type TestContext, test } from 'node:test';
import { cancelRestore } from '../../shim/task/cancel-restore.js';
import { FakeSession, fakeSession, running, sealed } from './control-session.js';
import { temporaryFolder } from './paths.js';

/** A runtime that does `operation` in `bundle`; the pid of a process that it has started. */
async function runtime(t: TestContext, operation: string, bundle: string): Promise<number> {
  const script = 'sleep 60 & echo $!; wait';
  const shell = spawn('sh', ['-c', script, 'runc', operation, '--bundle', bundle, 'name'], {
    detached: true,
  });
  t.after(() => process.kill(-(shell.pid as number), 'SIGKILL'));
  const [line] = (await once(shell.stdout, 'data')) as [Buffer];
  return Number(line.toString());
}

test('the session of the container’s restore is cancelled, and no other', async (t) => {
  const root = await temporaryFolder(t);
  const pids = [
    await runtime(t, 'restore', '/two'),
    await runtime(t, 'checkpoint', '/one'),
    await runtime(t, 'restore', '/one'),
  ];
  const sessions: FakeSession[] = [];
  for (const criu_pid of pids) {
    const session = await FakeSession.start(root, { ...running, criu_pid });
    t.after(() => session.end(sealed));
    sessions.push(session);
  }
  await cancelRestore('/one', root);
  assert.deepEqual(
    sessions.map(({ reasons }) => reasons.length),
    [0, 0, 1],
  );
});

test('a session that is not there yet is waited for, but not for ever', async (t) => {
  const root = await temporaryFolder(t);
  const criu_pid = await runtime(t, 'restore', '/one');
  await cancelRestore('/one', root, 0);
  const cancelled = cancelRestore('/one', root);
  const session = await FakeSession.start(root, { ...running, criu_pid });
  t.after(() => session.end(sealed));
  await cancelled;
  assert.equal(session.reasons.length, 1);
});

test('a restore that is too far, or over, is left alone', async (t) => {
  const criu_pid = await runtime(t, 'restore', '/one');
  const { root, session } = await fakeSession(t, { ...running, criu_pid });
  session.isTooLate = true;
  await cancelRestore('/one', root);
  const over = await temporaryFolder(t);
  await mkdir(FakeSession.directory(over, criu_pid), { recursive: true });
  await cancelRestore('/one', over);
});
