/** Checkpoints through the shim: what State says meanwhile, and what a failure is told with. */

import assert from 'node:assert/strict';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { pausedState } from '../../shim/intercept/task-fields.js';
import { bytesField, numberField } from '../../src/protobuf.js';
import { encodeResponse } from '../../src/ttrpc/envelope.js';
import { field, id, world } from './intercept-world.js';

/** StateResponse of a process that runs, with a field that we do not know. */
const running = Buffer.concat([
  id,
  numberField(3, 4242),
  numberField(4, 2),
  bytesField(99, 'kept'),
]);

test('State says paused while a checkpoint runs, and only then', async (t) => {
  let finish = () => {};
  const saved = new Promise<void>((resolve) => {
    finish = resolve;
  });
  let published: Buffer = Buffer.alloc(0);
  const { bundle, call, seen, asked } = await world(t, {
    help: (_, input) => {
      published = input;
      return Buffer.alloc(0);
    },
    answering: async ({ method }) => {
      if (method === 'Checkpoint') await saved;
      return method === 'State' ? { payload: running } : {};
    },
  });
  await call('Create', id, bytesField(2, bundle));
  const saving = call('Checkpoint', id, bytesField(2, '/image'));
  while (!seen.some(({ method }) => method === 'Checkpoint')) await new Promise(setImmediate);
  const states = seen.length;
  const { payload } = await call('State', id);
  assert.deepEqual(
    [field(payload, 3), field(payload, 4), field(payload, 99)],
    ['4242', '4', 'kept'],
  );
  assert.equal(seen.length, states, 'the stock shim would not have answered');
  await call('State', id, bytesField(2, 'an exec'));
  await call('State', bytesField(1, 'another'));
  assert.equal(seen.length, states + 2);
  finish();
  assert.equal((await saving).code, 0);
  assert.equal(field((await call('State', id)).payload, 4), '2');
  assert.deepEqual(asked, [['publish']]);
  assert.equal(field(published, 2), '/image');
});

test('of two checkpoints at once, the end of the first does not end the pause of the second', async (t) => {
  const ends: (() => void)[] = [];
  const { bundle, call, seen } = await world(t, {
    answering: async ({ method }) => {
      if (method === 'Checkpoint') await new Promise<void>((resolve) => ends.push(resolve));
      return method === 'State' ? { payload: running } : {};
    },
  });
  await call('Create', id, bytesField(2, bundle));
  const first = call('Checkpoint', id, bytesField(2, '/one'));
  while (ends.length < 1) await delay(1);
  const second = call('Checkpoint', id, bytesField(2, '/two'));
  while (ends.length < 2) await delay(1);
  const status = async () => field((await call('State', id)).payload, 4);
  ends[0]?.();
  await first;
  assert.equal(await status(), '4', 'the other one still runs');
  ends[1]?.();
  await second;
  assert.equal(await status(), '2');
  const states = seen.filter(({ method }) => method === 'State');
  assert.equal(states.length, 2, 'before the first, and after both');
});

test('an image with a parent: CRIU reads of it during that checkpoint, whatever comes of it', async (t) => {
  let code = 0;
  const read: string[] = [];
  let config = '';
  const { bundle, call } = await world(t, {
    answering: ({ method }) => {
      if (method !== 'Checkpoint') return {};
      read.push(existsSync(config) ? readFileSync(config, 'utf8') : '');
      return { code, message: 'criu failed' };
    },
  });
  config = join(bundle, 'kfd-criu.conf');
  writeFileSync(config, 'libdir /x\n');
  const withParent = numberField(100, 1);
  await call('Create', id, bytesField(2, bundle));
  for (code of [0, 2]) {
    assert.equal((await call('Checkpoint', id, withParent)).code, code);
    assert.equal(readFileSync(config, 'utf8'), 'libdir /x\n');
  }
  await call('Checkpoint', id);
  // What a shim that was killed has left is not added to.
  writeFileSync(config, read[0] ?? '');
  await call('Checkpoint', id, withParent);
  const parent = 'libdir /x\nprev-images-dir ../previous\ntrack-mem\n';
  assert.deepEqual(read, [parent, parent, 'libdir /x\n', parent]);
  // A container with a configuration of its own has none of ours.
  rmSync(config);
  await call('Checkpoint', id, withParent);
  assert.equal(read.at(-1), '');
  assert.equal(existsSync(config), false);
});

test('a failed checkpoint is told with what the helper finds; without a helper as it is', async (t) => {
  let breaks = false;
  const { bundle, call, asked, troubles } = await world(t, {
    answering: ({ method }) => (method === 'Checkpoint' ? { code: 2, message: 'criu failed' } : {}),
    help: ([task], input) => {
      if (breaks) throw new Error('broken');
      if (task === 'publish') assert.equal(input.length, 0, 'nothing to publish');
      return encodeResponse({ code: 0, message: 'criu failed; why', payload: Buffer.alloc(0) });
    },
  });
  await call('Create', id, bytesField(2, bundle));
  assert.equal((await call('Checkpoint', id)).message, 'criu failed; why');
  assert.deepEqual(asked[1]?.slice(0, 3), ['explain', 'dump', bundle]);
  breaks = true;
  const { code, message } = await call('Checkpoint', id);
  assert.deepEqual([code, message, troubles.length], [2, 'criu failed', 2]);
  assert.equal(field((await call('State', id)).payload, 4), '', 'paused no more');
});

test('states of what does not run are as they were', () => {
  for (const status of [0, 1, 3, 4]) {
    const state = Buffer.concat([id, numberField(4, status)]);
    assert.deepEqual(pausedState(state), state);
  }
  assert.equal(field(pausedState(Buffer.concat([id, numberField(4, 5)])), 4), '4');
});
