import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { watchForIdle } from '../../shim/bootstrap/idle.js';
import { listenAt } from '../../shim/bootstrap/own-socket.js';
import { proxyFor } from '../../shim/proxy/server.js';
import { connectTo } from '../../src/ttrpc/client.js';
import { temporaryFolder } from './paths.js';
import { testServer } from './ttrpc-server.js';

async function until(what: string, holds: () => boolean): Promise<void> {
  for (let i = 0; i < 400 && !holds(); i += 1) await delay(10);
  assert.ok(holds(), what);
}

test('a server without a connection for a while is reported as idle, one with a connection is not', async (t) => {
  const path = join(await temporaryFolder(t), 's');
  const server = proxyFor('/none', () => undefined);
  t.after(() => void server.close());
  await listenAt(server, path);
  let calls = 0;
  watchForIdle(
    server,
    () => {
      calls += 1;
    },
    100,
  );
  const stock = await testServer(t, () => ({}));
  const served = proxyFor(stock.path, () => undefined);
  t.after(() => void served.close());
  const busy = `${path}-busy`;
  await listenAt(served, busy);
  let ended = 0;
  watchForIdle(
    served,
    () => {
      ended += 1;
    },
    100,
  );
  const client = await connectTo(busy, () => undefined);
  const another = await connectTo(busy, () => undefined);
  client.close();
  await until('the first', () => calls === 1);
  await delay(150);
  assert.equal(ended, 0, 'somebody is connected');
  another.close();
  await until('the second', () => ended === 1);
  assert.equal(calls, 1, 'one call for each time that the last caller leaves');
});

test('a server that has closed is never idle', async (t) => {
  const server = proxyFor('/none', () => undefined);
  await listenAt(server, join(await temporaryFolder(t), 's'));
  let calls = 0;
  watchForIdle(server, () => void calls++, 100);
  server.close();
  await delay(250);
  assert.equal(calls, 0);
});
