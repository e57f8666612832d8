import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect as connectHttp2 } from 'node:http2';
import { connect } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { controlService } from '../../src/session/control/grpc/definition.js';
import { FakeSession, fakeSession, running, sealed } from './control-session.js';

/** More than a connection takes without a reader. */
const manyFiles = Array.from({ length: 5000 }, (_, i) => ({
  ...running.files[0],
  name: `amdgpu-pages-${i}-0000.img`,
})) as typeof running.files;

test('no statuses are kept for a watcher that does not read', async (t) => {
  const { root, session } = await fakeSession(t, { ...running, files: manyFiles });
  let asked = 0;
  session.status = () => {
    asked++;
    return session.current;
  };
  const path = join(FakeSession.directory(root, running.criu_pid), 'control.sock');
  const client = connectHttp2('http://localhost', { createConnection: () => connect(path) });
  t.after(() => client.destroy());
  client.on('error', () => undefined);
  const request = client.request({
    ':method': 'POST',
    ':path': controlService['Watch']?.path,
    'content-type': 'application/grpc',
    te: 'trailers',
  });
  request.on('error', () => undefined);
  request.end(Buffer.alloc(5)); // one message, which is empty
  await once(request, 'response');
  const before = asked;
  assert.ok(before >= 1, 'it watches');
  await delay(1500);
  assert.ok(asked - before <= 1, `${asked - before} more statuses were made for nobody`);
  request.destroy();
  await session.end(sealed);
});
