/** How long a checkpoint is watched and told as one, and who hears of its end. */

import assert from 'node:assert/strict';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { bytesField, numberField } from '../../src/protobuf.js';
import { encodeResponse } from '../../src/ttrpc/envelope.js';
import { encodeFrame, frameType } from '../../src/ttrpc/frame.js';
import { field, id, service, world } from './intercept-world.js';
import { until } from './shim-host.js';
import { state } from './shim-stage.js';

const noSession = encodeResponse({ code: 5, message: 'no session', payload: Buffer.alloc(0) });

test('a State that fails before a checkpoint stops nothing, and is not told as paused', async (t) => {
  const exited = Buffer.concat([id, bytesField(4, '2'), numberField(7, 2)]);
  for (const [answer, isForwarded, status] of [
    [{ code: 5 }, true, ''],
    [{ payload: Buffer.from([0xff]) }, true, ''],
    [{ payload: exited }, false, '2'], // its status is no number
  ] as const) {
    let release: (() => void) | undefined;
    let reply: object = answer;
    const { bundle, call, seen, troubles } = await world(t, {
      answering: async ({ method }) => {
        if (method === 'Checkpoint') await new Promise<void>((resolve) => (release = resolve));
        return method === 'State' ? reply : {};
      },
    });
    await call('Create', id, bytesField(2, bundle));
    const saved = call('Checkpoint', id, bytesField(2, '/image'));
    await until('a checkpoint', () => release !== undefined);
    reply = { code: 7 };
    const calls = seen.length;
    const { code, payload } = await call('State', id);
    assert.deepEqual([code, seen.length - calls], isForwarded ? [7, 1] : [0, 0]);
    assert.equal(field(payload, 4), status);
    release?.();
    assert.equal((await saved).code, 0);
    assert.equal(troubles.length, 'payload' in answer && isForwarded ? 1 : 0);
  }
});

test('after an answer that is damaged the container is not told as paused', async (t) => {
  const { bundle, call, seen } = await world(t, {
    answering: ({ method }) => {
      if (method === 'State') return { payload: state(2) };
      if (method !== 'Checkpoint') return {};
      return (streamId) => encodeFrame(streamId, frameType.response, Buffer.from([0xff]));
    },
  });
  await call('Create', id, bytesField(2, bundle));
  const { code, message } = await call('Checkpoint', id, bytesField(2, '/image'));
  assert.equal(code, 13);
  assert.match(message, /not a protobuf message/);
  assert.equal(field((await call('State', id)).payload, 4), '2');
  assert.equal(seen.at(-1)?.method, 'State');
});

test('a checkpoint of a container that was created before the shim is as good', async (t) => {
  const { call, asked } = await world(t, {
    answering: ({ method }) => (method === 'Checkpoint' ? { code: 2, message: 'failed' } : {}),
  });
  assert.equal((await call('Checkpoint', id, bytesField(2, '/image'))).code, 2);
  assert.deepEqual(asked[1]?.slice(0, 3), ['explain', 'dump', '']);
});

test('containerd hears of a checkpoint before its caller does', async (t) => {
  let isPublished = false;
  const { bundle, call } = await world(t, {
    help: async () => {
      await delay(50);
      isPublished = true;
      return Buffer.alloc(0);
    },
  });
  await call('Create', id, bytesField(2, bundle));
  await call('Checkpoint', id, bytesField(2, '/image'));
  assert.equal(isPublished, true);
});

test('an image directory of containerd is looked after while the checkpoint runs; of others none is', async (t) => {
  const timers = () => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;
  let release = () => {};
  const { folder, bundle, call, asked } = await world(t, {
    answering: async ({ method }) => {
      if (method === 'Checkpoint') await new Promise<void>((resolve) => (release = resolve));
      return method === 'State' ? { payload: state(2) } : {};
    },
  });
  await call('Create', id, bytesField(2, bundle));
  const image = join(folder, 'ctrd-checkpoint42');
  await mkdir(image);
  const during: number[] = [];
  for (const path of ['/not/there', image]) {
    const before = timers();
    const waiting = release;
    const saved = call('Checkpoint', id, bytesField(2, path));
    await until('a checkpoint', () => release !== waiting);
    if (path === image) await delay(600); // it has looked once
    during.push(timers());
    release();
    assert.equal((await saved).code, 0);
    assert.equal(timers(), before, 'a watch that goes on');
  }
  assert.equal((during[0] ?? 0) + 1, during[1]);
  assert.deepEqual(asked, [['publish'], ['publish']], 'nothing is cancelled');
});

test('a session is cancelled once; an attempt that breaks is told, and made again', async (t) => {
  let attempts = 0;
  let release = () => {};
  const { bundle, call, client, asked, troubles } = await world(t, {
    answering: async ({ method }) => {
      if (method !== 'Checkpoint') return {};
      await new Promise<void>((resolve) => (release = resolve));
      return { code: 2, message: 'criu failed' };
    },
    help: ([task]) => {
      if (task !== 'cancel-checkpoint') return Buffer.alloc(0);
      attempts += 1;
      if (attempts === 1) throw new Error('no memory');
      return attempts === 2 ? noSession : Buffer.alloc(0);
    },
  });
  await call('Create', id, bytesField(2, bundle));
  const payload = Buffer.concat([id, bytesField(2, '/image')]);
  const saved = client.call({ service, method: 'Checkpoint', payload }, 50);
  await assert.rejects(saved, { code: 'E_TIMEOUT' });
  await until('three attempts', () => attempts === 3);
  await delay(400); // longer than between two attempts
  release();
  await until('the end', () => asked.some(([task]) => task === 'explain'));
  assert.equal(attempts, 3);
  assert.deepEqual(troubles.map(String), ['Error: no memory']);
});
