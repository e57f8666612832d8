/** `sessions`, `watch` and `cancel`, with sessions that are none on real sockets. */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdir } from 'node:fs/promises';
import { createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { phaseOf } from '../../src/cli/sessions.js';
import { cli, errorIn } from './cli-context.js';
import { FakeSession, fakeSession, running, sealed } from './control-session.js';
import { temporaryFolder } from './paths.js';

/** A busy host takes its time. */
async function until(isSo: () => boolean): Promise<void> {
  for (let left = 1200; !isSo(); left -= 1) {
    assert.ok(left > 0, 'it never comes');
    await delay(50);
  }
}

test('sessions: what runs, and not what was killed', async (t) => {
  const root = await temporaryFolder(t);
  const none = await cli(['sessions', '--root', root]);
  assert.deepEqual(none, {
    code: 0,
    stdout: '',
    stderr: 'no checkpoint or restore is running\n',
  });
  await mkdir(FakeSession.directory(root, 99), { recursive: true });
  const dump = await FakeSession.start(root);
  const restore = await FakeSession.start(root, {
    ...running,
    operation: 'OPERATION_RESTORE',
    criu_pid: 17,
    container_id: '',
    phase: 'gate\u001b[2J',
    cancelled: true,
  });
  const waits = await FakeSession.start(root, {
    ...running,
    criu_pid: 5000,
    files: running.files.map((file) => ({ ...file, waiting: true })),
  });
  t.after(() => Promise.all([dump.end(sealed), restore.end(sealed), waits.end(sealed)]));
  const listed = await cli(['sessions', '--root', root]);
  assert.equal(
    listed.stdout,
    [
      'PID   OPERATION   CONTAINER     PHASE                        PROCESSES  DONE     TOTAL     RATE      TIME',
      '17    restore     -             gate?[2J, cancelled          2          3.0 MiB  12.0 MiB  3.1 MB/s  1.50 s',
      '4711  checkpoint  abababababab  overlap                      2          3.0 MiB  12.0 MiB  3.1 MB/s  1.50 s',
      '5000  checkpoint  abababababab  overlap, waiting for memory  2          3.0 MiB  12.0 MiB  3.1 MB/s  1.50 s',
      '',
    ].join('\n'),
  );
  const { stdout, code } = await cli(['sessions', '--root', root, '--format', 'json']);
  assert.equal(code, 0);
  const report = JSON.parse(stdout);
  assert.equal(report.schema_version, 1);
  const { result: _, ...shown } = running;
  assert.deepEqual(report.sessions[1], {
    ...shown,
    operation: 'checkpoint',
    bytes_per_s: 3145728,
  });
  assert.equal('container_id' in report.sessions[0], false);

  const several = await cli(['watch', '--root', root]);
  assert.equal(several.code, 2);
  assert.match(several.stderr, /several are running: 17, 4711, 5000/);
});

test('sessions: one that does not answer as it should keeps none from being shown', async (t) => {
  const { root } = await fakeSession(t);
  await mkdir(FakeSession.directory(root, 12), { recursive: true });
  const strange = await FakeSession.start(root, { ...running, criu_pid: 12 });
  strange.status = () => assert.fail('a bug');
  t.after(() => strange.end(sealed));
  for (const format of ['table', 'json']) {
    const { code, stdout, stderr } = await cli(['sessions', '--root', root, '--format', format]);
    assert.equal(code, 1);
    assert.match(stdout, /4711/);
    if (format === 'table') assert.match(stderr, /^Error: a bug$/m);
    else assert.equal(errorIn(stderr).message, 'a bug');
  }
});

test('watch: a line for each step, and the end; exit code 0', async (t) => {
  const { root, session } = await fakeSession(t);
  let printed = '';
  const out = (text: string) => {
    printed += text;
  };
  const watching = cli(['watch', '--root', root], { out });
  await until(() => printed.includes('overlap'));
  session.current = { ...running, bytes_done: running.bytes_total, phase: 'gate' };
  await until(() => printed.includes('gate'));
  await session.end(sealed);
  const { code, stderr } = await watching;
  assert.deepEqual([code, stderr], [0, '']);
  assert.equal(
    printed,
    [
      'checkpoint 4711: overlap, 3.0 MiB of 12.0 MiB, 3.1 MB/s',
      'checkpoint 4711: gate, 12.0 MiB of 12.0 MiB, 12.6 MB/s',
      'checkpoint 4711: sealed, 12.0 MiB',
      '',
    ].join('\n'),
  );
});

test('watch on a terminal: a bar, which is gone at the end', async (t) => {
  const { root, session } = await fakeSession(t);
  session.current = { ...running, bytes_total: 0, bytes_done: 0, phase: 'wait_for_tree' };
  let stderr = '';
  const err = (text: string) => {
    stderr += text;
  };
  const watching = cli(['watch', '4711', '--root', root], { isTerminal: true, err });
  await until(() => stderr.includes('wait_for_tree'));
  session.current = running;
  await until(() => stderr.includes('(25%)'));
  await session.end(sealed);
  const { code, stdout } = await watching;
  assert.equal(code, 0);
  assert.equal(stdout, 'checkpoint 4711: sealed, 12.0 MiB\n');
  const drawn = stderr.split('\r\u001b[K');
  assert.ok(drawn.includes('checkpoint 4711: wait_for_tree'), stderr);
  assert.ok(
    drawn.includes(
      'checkpoint 4711: overlap, 3.1 MB/s: [#####...............] 3.0 MiB of 12.0 MiB (25%)',
    ),
    stderr,
  );
  assert.equal(drawn.at(-1), '');
});

test('watch: the exit code, the reason and the log are those of the session', async (t) => {
  const { root, session } = await fakeSession(t);
  let stdout = '';
  const out = (text: string) => {
    stdout += text;
  };
  const watching = cli(['watch', '--root', root, '--format', 'json'], { out });
  await until(() => stdout !== '');
  const result = {
    outcome: 'failed',
    success: false,
    code: 'E_TIMEOUT',
    message: 'upload: not finished',
  } as const;
  await session.end(result);
  const { code, stderr } = await watching;
  assert.equal(code, 6);
  const { code: kind, message, details } = errorIn(stderr);
  assert.deepEqual([kind, message], ['E_TIMEOUT', 'upload: not finished']);
  assert.deepEqual(details, { log: '/var/log/kfd-checkpoint/x.log' });
  const lines = stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
  assert.ok(lines.length >= 2);
  assert.equal(lines[0].phase, 'overlap');
  assert.deepEqual(lines.at(-1).result, result);
});

test('watch: a failure for which the session has no reason is CRIU’s, exit code 1', async (t) => {
  const { root, session } = await fakeSession(t);
  let printed = '';
  const out = (text: string) => {
    printed += text;
  };
  const watching = cli(['watch', '--root', root], { out });
  await until(() => printed !== '');
  await session.end({ outcome: 'abandoned', success: false, code: '', message: '' });
  const { code, stderr } = await watching;
  assert.equal(code, 1);
  assert.match(stderr, /^Error: session 4711: abandoned: CRIU has failed or was killed$/m);
});

test('watch and cancel: a session that is not there is 4', async (t) => {
  const root = await temporaryFolder(t);
  for (const words of [['watch'], ['watch', '12'], ['watch', 'x'], ['cancel', '12']]) {
    const { code, stderr } = await cli([...words, '--root', root]);
    assert.equal(code, 4, stderr);
    assert.match(stderr, /^Error: sessions?\b.*\nHint: {2}\S/);
  }
  await mkdir(FakeSession.directory(root, 12), { recursive: true });
  assert.equal((await cli(['watch', '12', '--root', root])).code, 4);
});

test('watch: interrupted, it says nothing more', async (t) => {
  const { root } = await fakeSession(t);
  const interrupted = new AbortController();
  let stderr = '';
  const err = (text: string) => {
    stderr += text;
  };
  const over = { signal: interrupted.signal, isTerminal: true };
  const watching = cli(['watch', '--root', root], { ...over, err });
  await until(() => stderr.includes('(25%)'));
  interrupted.abort();
  const { code, stdout } = await watching;
  assert.equal(code, 1); // main.ts makes it that of the signal
  assert.equal(stdout, '');
  assert.ok(stderr.endsWith('(25%)\r\u001b[K'), stderr); // the bar, gone
  assert.equal((await cli(['watch', '--root', root], over)).code, 1, 'before it began');
});

test('cancel: the reason reaches the session; too late is 1 and says so', async (t) => {
  const { root, session } = await fakeSession(t);
  const done = await cli(['cancel', '4711', '--root', root, '--reason', 'host goes down']);
  assert.deepEqual(done, { code: 0, stdout: 'session 4711: cancelled\n', stderr: '' });
  assert.deepEqual(session.reasons, ['host goes down']);
  session.isTooLate = true;
  const late = await cli(['cancel', '4711', '--root', root]);
  assert.equal(late.code, 1);
  assert.match(late.stderr, /^Error: session: cannot be cancelled: the image is complete\n/);
});

test('a session whose contents the CPU copies says so', () => {
  const files = running.files.map((file) => ({ ...file, engine_reason: 'SDMA: no ring' }));
  assert.equal(phaseOf({ ...running, files }), 'overlap, copied by the CPU');
});

test('a signal ends the wait for a session that is stopped', async (t) => {
  const root = await temporaryFolder(t);
  const folder = FakeSession.directory(root, 4711);
  await mkdir(folder, { recursive: true });
  // It takes connections and says nothing, like one that was stopped.
  const peers = new Set<Socket>();
  const silent = createServer((peer) => peers.add(peer)).listen(join(folder, 'control.sock'));
  await once(silent, 'listening');
  t.after(() => {
    silent.close();
    for (const peer of peers) peer.destroy();
  });
  for (const words of [['sessions'], ['cancel', '4711'], ['watch']]) {
    const interrupted = new AbortController();
    setTimeout(() => interrupted.abort(), 200);
    const began = performance.now();
    const [verb = '', ...rest] = words;
    const { code, stderr } = await cli([verb, '--root', root, ...rest], {
      signal: interrupted.signal,
    });
    assert.ok(performance.now() - began < 10_000, `${verb} waits on`);
    const told = verb === 'watch' ? [1, ''] : [1, 'Error: session 4711: interrupted'];
    assert.deepEqual([code, stderr.split('\n')[0]], told, verb);
  }
});
