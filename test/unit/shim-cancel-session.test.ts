import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir } from 'node:fs/promises';
import { type TestContext, test } from 'node:test';
import { cancelSession } from '../../shim/task/cancel-session.js';
import { FakeSession, fakeSession, running, sealed } from './control-session.js';
import { temporaryFolder } from './paths.js';

/** A runtime that does `operation` with `path`; the pid of a process that it has started. */
async function runtime(t: TestContext, operation: string, path: string): Promise<number> {
  const script = 'sleep 60 & echo $!; wait';
  const flag = operation === 'restore' ? '--bundle' : '--image-path';
  const shell = spawn('sh', ['-c', script, 'runc', operation, flag, path, 'name'], {
    detached: true,
  });
  t.after(() => process.kill(-(shell.pid as number), 'SIGKILL'));
  const [line] = (await once(shell.stdout, 'data')) as [Buffer];
  return Number(line.toString());
}

const restore = { operation: 'restore', path: '/one' } as const;

test('the session of the call is cancelled, and no other', async (t) => {
  for (const [operation, wanted] of [
    ['restore', [0, 0, 1]],
    ['checkpoint', [0, 1, 0]],
  ] as const) {
    const root = await temporaryFolder(t);
    const pids = [
      await runtime(t, operation, '/two'),
      await runtime(t, 'checkpoint', '/one'),
      await runtime(t, 'restore', '/one'),
    ];
    const sessions: FakeSession[] = [];
    for (const criu_pid of pids) {
      const session = await FakeSession.start(root, { ...running, criu_pid });
      t.after(() => session.end(sealed));
      sessions.push(session);
    }
    assert.equal(await cancelSession({ operation, path: '/one' }, root), true);
    assert.deepEqual(
      sessions.map(({ reasons }) => reasons.length),
      wanted,
    );
    const reasons = sessions.flatMap((session) => session.reasons);
    assert.deepEqual(reasons, [`the caller of the ${operation} has left containerd`]);
  }
});

test('a session is told that its container was ended', async (t) => {
  const root = await temporaryFolder(t);
  const criu_pid = await runtime(t, 'restore', '/one');
  const session = await FakeSession.start(root, { ...running, criu_pid });
  t.after(() => session.end(sealed));
  assert.equal(await cancelSession({ ...restore, isEnded: true }, root), true);
  assert.deepEqual(session.reasons, ['the container was killed or deleted during its restore']);
});

test('a session that is not there yet is waited for, but not for ever', async (t) => {
  const root = await temporaryFolder(t);
  const criu_pid = await runtime(t, 'restore', '/one');
  assert.equal(await cancelSession(restore, root, 0), false);
  const cancelled = cancelSession(restore, root);
  const session = await FakeSession.start(root, { ...running, criu_pid });
  t.after(() => session.end(sealed));
  assert.equal(await cancelled, true);
  assert.equal(session.reasons.length, 1);
});

test('a session that does not listen yet is waited for', async (t) => {
  const root = await temporaryFolder(t);
  const criu_pid = await runtime(t, 'restore', '/one');
  await mkdir(FakeSession.directory(root, criu_pid), { recursive: true });
  const cancelled = cancelSession(restore, root);
  await new Promise((resolve) => setTimeout(resolve, 300));
  const session = await FakeSession.start(root, { ...running, criu_pid });
  t.after(() => session.end(sealed));
  assert.equal(await cancelled, true);
  assert.equal(session.reasons.length, 1);
});

test('a restore that is too far, or over, is left alone', async (t) => {
  const criu_pid = await runtime(t, 'restore', '/one');
  const { root, session } = await fakeSession(t, { ...running, criu_pid });
  session.isTooLate = true;
  assert.equal(await cancelSession(restore, root), true);
  const over = await temporaryFolder(t);
  await mkdir(FakeSession.directory(over, criu_pid), { recursive: true });
  assert.equal(await cancelSession(restore, over, 0), false);
});

test('a session that fails to cancel is an error, so that it is asked again', async (t) => {
  const criu_pid = await runtime(t, 'restore', '/one');
  const { root, session } = await fakeSession(t, { ...running, criu_pid });
  session.cancel = () => {
    throw new Error('why');
  };
  await assert.rejects(cancelSession(restore, root), /why/);
});
