/** The control service, over real sockets. */

import assert from 'node:assert/strict';
import { getEventListeners, once } from 'node:events';
import { link, mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { sessionsTable, statusAsJson } from '../../src/cli/sessions.js';
import { KfdError } from '../../src/errors.js';
import { SessionClient } from '../../src/session/control/client.js';
import { sessionPids } from '../../src/session/control/folders.js';
import { controlService } from '../../src/session/control/grpc/definition.js';
import { resultOf, type SessionStatus } from '../../src/session/control/types.js';
import { FakeSession, fakeSession, running, sealed } from './control-session.js';
import { temporaryFolder } from './paths.js';
import { randomFrom } from './random.js';

const never = new AbortController().signal;

function socketOf(root: string, criuPid = running.criu_pid): string {
  return join(FakeSession.directory(root, criuPid), 'control.sock');
}

const statusOf = (root: string, criuPid = running.criu_pid) =>
  SessionClient.with(root, criuPid, (client) => client.status());

test('a status comes over the socket as the session has it', async (t) => {
  const { root, session } = await fakeSession(t);
  assert.deepEqual(await statusOf(root), running);
  session.current = {
    ...running,
    operation: 'OPERATION_RESTORE',
    container_id: '',
    // Above 32 bits.
    bytes_total: 200 * 2 ** 30,
    files: [],
    gpus: [],
    result: { outcome: 'failed', success: false, code: 'E_VRAM', message: 'gpu: full' },
  };
  assert.deepEqual(await statusOf(root), session.current);
});

test('the socket is root alone, and goes with the session', async (t) => {
  const { root, session } = await fakeSession(t);
  assert.equal((await stat(socketOf(root))).mode & 0o777, 0o600);
  assert.deepEqual(sessionPids(root), [running.criu_pid]);
  await session.end(sealed);
  await assert.rejects(stat(socketOf(root)), { code: 'ENOENT' });
});

test('who watches gets every change, and a last status with the result', async (t) => {
  const { root, session } = await fakeSession(t);
  const seen = await SessionClient.with(root, running.criu_pid, async (client) => {
    const statuses = [];
    for await (const status of client.watch(never)) {
      statuses.push(status);
      session.current = { ...running, bytes_done: running.bytes_done + statuses.length };
      if (statuses.length === 3) void session.end(sealed);
    }
    return statuses;
  });
  assert.deepEqual(
    seen.map((status) => status.bytes_done - running.bytes_done),
    [0, 1, 2, 3],
  );
  assert.deepEqual(
    seen.map(({ result }) => result),
    [null, null, null, sealed],
  );
});

test('watching ends when whoever watches wants no more; the session continues', async (t) => {
  const { root } = await fakeSession(t);
  const enough = new AbortController();
  let count = 0;
  await SessionClient.with(root, running.criu_pid, async (client) => {
    for await (const _ of client.watch(enough.signal)) {
      count += 1;
      assert.equal(getEventListeners(enough.signal, 'abort').length, 1);
      enough.abort();
    }
    for await (const _ of client.watch(enough.signal)) assert.fail('it was enough before');
    const later = new AbortController();
    for await (const _ of client.watch(later.signal)) break;
    assert.deepEqual(getEventListeners(later.signal, 'abort'), []);
  });
  assert.equal(count, 1);
  assert.deepEqual(await statusOf(root), running);
});

test('a reason to cancel reaches the session; when it is too late its error comes back', async (t) => {
  const { root, session } = await fakeSession(t);
  const cancel = (reason: string) =>
    SessionClient.with(root, running.criu_pid, (client) => client.cancel(reason));
  await cancel('maintenance');
  assert.deepEqual(session.reasons, ['maintenance']);
  assert.equal((await statusOf(root)).cancelled, true);
  session.isTooLate = true;
  await assert.rejects(cancel('again'), {
    code: 'E_TOO_LATE',
    message: 'session: cannot be cancelled: the image is complete',
  });
  // Longer than a request may be.
  await assert.rejects(cancel('x'.repeat(1 << 20)), { code: 'E_PROTOCOL' });
  assert.deepEqual(session.reasons, ['maintenance']);
  assert.equal((await statusOf(root)).criu_pid, running.criu_pid);
});

test('an error of the session that has no code of ours is a bug of ours', async (t) => {
  const { root, session } = await fakeSession(t);
  session.status = () => {
    throw Object.assign(new Error('no'), { code: 'toString' });
  };
  await assert.rejects(statusOf(root), { code: 'E_INTERNAL', message: 'no' });
});

test('a session that was killed, one that is gone, and none at all are not found', async (t) => {
  const root = await temporaryFolder(t);
  assert.deepEqual(sessionPids(root), []);
  for (const name of ['17', '018', '-3', 'x', '99999999999']) {
    await mkdir(join(FakeSession.directory(root, 1), '..', name), { recursive: true });
  }
  assert.deepEqual(sessionPids(root), [17]);
  await assert.rejects(statusOf(root, 17), { code: 'E_NOT_FOUND' });
  await writeFile(socketOf(root, 17), '');
  await assert.rejects(statusOf(root, 17), { code: 'E_NOT_FOUND' });
  await rm(socketOf(root, 17));
  await leaveSocket(root, 17);
  await assert.rejects(statusOf(root, 17), { code: 'E_NOT_FOUND' });
  // A new session with the same pid takes its place.
  const session = await FakeSession.start(root, { ...running, criu_pid: 17 });
  assert.equal((await statusOf(root, 17)).criu_pid, 17);
  await session.end(sealed);
});

/** What SIGKILL leaves of a listener. */
async function leaveSocket(root: string, criuPid: number): Promise<void> {
  const path = socketOf(root, criuPid);
  const server = createServer().listen(`${path}.killed`);
  await once(server, 'listening');
  await link(`${path}.killed`, path);
  server.close();
  await once(server, 'close');
}

test('a client whose session dies is told so', async (t) => {
  const root = await temporaryFolder(t);
  await mkdir(FakeSession.directory(root, 5), { recursive: true });
  const server = createServer((socket) => setTimeout(() => socket.destroy(), 20));
  await once(server.listen(socketOf(root, 5)), 'listening');
  t.after(() => server.close());
  await assert.rejects(statusOf(root, 5), { code: 'E_NOT_FOUND' });
  const watch = SessionClient.with(root, 5, async (client) => {
    for await (const _ of client.watch(never)) assert.fail('a status of nobody');
  });
  await assert.rejects(watch, { code: 'E_NOT_FOUND' });
});

test('a socket that cannot be made is logged and stops nothing', async (t) => {
  const root = await temporaryFolder(t);
  await mkdir(join(socketOf(root), 'in-the-way'), { recursive: true });
  const session = await FakeSession.start(root);
  await session.end(sealed);
  assert.match(await readFile(join(root, 'log'), 'utf8'), /cannot be watched/);
});

test('the end of a session waits for no client that does not read', async (t) => {
  const { root, session } = await fakeSession(t);
  await statusOf(root);
  const silent = connect(socketOf(root));
  silent.pause();
  await once(silent, 'connect');
  t.after(() => silent.destroy());
  // The connection is the service's by now.
  await statusOf(root);
  const began = performance.now();
  await session.end(sealed);
  assert.ok(performance.now() - began < 4000);
});

/** The beginning of HTTP/2, so that what follows is read as frames. */
const preface = Buffer.concat([
  Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'),
  Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0]),
]);

test('whatever comes through the socket, the session continues', async (t) => {
  const { root } = await fakeSession(t);
  await statusOf(root);
  const seed = Date.now() >>> 0;
  t.diagnostic(`seed ${seed}`);
  const random = randomFrom(seed);
  for (let round = 0; round < 200; round += 1) {
    const noise = Buffer.from(Array.from({ length: random(200) }, () => random(256)));
    const frame = Buffer.concat([Buffer.from([0, 0, noise.length, random(12), random(64)]), noise]);
    const socket = connect(socketOf(root));
    socket.on('error', () => undefined);
    socket.end(round % 3 === 0 ? noise : Buffer.concat([preface, round % 3 === 1 ? noise : frame]));
    socket.resume();
    await Promise.race([new Promise((resolve) => socket.on('close', resolve)), delay(50)]);
    socket.destroy();
  }
  assert.deepEqual(await statusOf(root), running);
});

test('what a client is answered may be anything', async (t) => {
  const root = await temporaryFolder(t);
  await mkdir(FakeSession.directory(root, 6), { recursive: true });
  const random = randomFrom(7);
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.write(Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0]));
    socket.end(Buffer.from(Array.from({ length: 100 }, () => random(256))));
  });
  await once(server.listen(socketOf(root, 6)), 'listening');
  t.after(() => server.close());
  for (let round = 0; round < 20; round += 1) {
    const asked = statusOf(root, 6);
    await assert.rejects(asked, (error) => error instanceof KfdError);
  }
});

test('damaged statuses are refused or can be shown', () => {
  const { responseSerialize, responseDeserialize } = controlService['Status'] ?? assert.fail();
  const sound = responseSerialize({ ...running, result: sealed });
  assert.deepEqual(responseDeserialize(sound), { ...running, result: sealed });
  const seed = Date.now() >>> 0;
  const random = randomFrom(seed);
  let shown = 0;
  for (let round = 0; round < 20_000; round += 1) {
    const bytes = Buffer.from(
      sound.subarray(0, random(4) === 0 ? random(sound.length) : undefined),
    );
    for (let change = random(4); change >= 0; change -= 1) {
      if (bytes.length > 0) bytes[random(bytes.length)] = random(256);
    }
    let status: SessionStatus;
    try {
      status = responseDeserialize(bytes) as SessionStatus;
    } catch {
      continue;
    }
    const text = sessionsTable([status]);
    assert.doesNotMatch(text.replaceAll('\n', ''), /\p{C}/u, `seed ${seed}, round ${round}`);
    assert.ok(JSON.stringify(statusAsJson(status)).startsWith('{'));
    shown += 1;
  }
  assert.ok(shown > 1000, `${shown} were shown`);
});

test('results have the code of a failure, and none of a success', () => {
  const failure = new KfdError('E_VRAM', 'gpu: full');
  const whole = (outcome: Parameters<typeof resultOf>[0], error?: KfdError) =>
    resultOf(outcome, error);
  assert.deepEqual(whole('failed', failure), {
    outcome: 'failed',
    success: false,
    code: 'E_VRAM',
    message: 'gpu: full',
  });
  assert.deepEqual(whole('abandoned'), { ...sealed, outcome: 'abandoned', success: false });
  assert.deepEqual(whole('restored', failure), { ...sealed, outcome: 'restored' });
});
