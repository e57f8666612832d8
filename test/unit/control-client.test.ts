/** How clients of the control service end: interrupted, and with nothing left of them. */

import assert from 'node:assert/strict';
import { getEventListeners, once } from 'node:events';
import { mkdir } from 'node:fs/promises';
import { createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { SessionClient } from '../../src/session/control/client.js';
import { FakeSession, fakeSession, running } from './control-session.js';
import { temporaryFolder } from './paths.js';

test('a question that is interrupted is answered at once, also by a session that is stopped', async (t) => {
  const root = await temporaryFolder(t);
  await mkdir(FakeSession.directory(root, 5), { recursive: true });
  const clients: Socket[] = [];
  const server = createServer((socket) => void clients.push(socket.on('error', () => undefined)));
  await once(server.listen(join(FakeSession.directory(root, 5), 'control.sock')), 'listening');
  t.after(() => {
    for (const socket of clients) socket.destroy();
    server.close();
  });
  const cancelled = { code: 'E_CANCELLED', message: 'session 5: interrupted' };
  await SessionClient.with(root, 5, async (client) => {
    const late = new AbortController();
    const asked = [client.status(late.signal), client.cancel('x', late.signal)];
    const answers = Promise.allSettled(asked);
    await new Promise(setImmediate);
    assert.equal(getEventListeners(late.signal, 'abort').length, 2);
    late.abort();
    assert.deepEqual(
      (await answers).map(({ status }) => status),
      ['rejected', 'rejected'],
    );
    assert.deepEqual(getEventListeners(late.signal, 'abort'), []);
  });
  const before = AbortSignal.abort();
  const ask = SessionClient.with(root, 5, (client) => client.status(before));
  await assert.rejects(ask, cancelled);
  const both = SessionClient.with(root, 5, (client) => client.cancel('x', before));
  await assert.rejects(both, cancelled);
});

test('a client leaves no connection behind', async (t) => {
  const { root } = await fakeSession(t);
  const connections = () =>
    process.getActiveResourcesInfo().filter((one) => one === 'PipeWrap').length;
  const before = connections();
  await SessionClient.with(root, running.criu_pid, (client) => client.status());
  for (let n = 0; n < 500 && connections() > before; n++) await delay(10);
  assert.equal(connections(), before);
});
