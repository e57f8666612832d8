/** Whose pause a checkpoint ends when its caller goes, and what a checkpoint leaves. */

import assert from 'node:assert/strict';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { encodeResponse } from '../../shim/transport/envelope.js';
import { bytesField, numberField } from '../../shim/transport/fields.js';
import { encodeFrame, frameType } from '../../shim/transport/frame.js';
import { field, id, service, type World, world } from './intercept-world.js';
import { until } from './shim-host.js';

const state = (status: number) => Buffer.concat([id, numberField(4, status)]);
const noSession = encodeResponse({ code: 5, message: 'no session', payload: Buffer.alloc(0) });

interface Stage extends World {
  status: number;
  /** Codes of the stock shim's answers, by method. */
  readonly codes: Record<string, number>;
  /** Whether the runtime stops a container that runs; what it was asked for. */
  pausesAgain: boolean;
  /** How long failures are being explained. */
  explaining: Promise<void>;
  readonly pausedAgain: Buffer[];
  /** Checkpoints whose caller goes, until their end; the calls of the stock shim after the Checkpoint. */
  abandoned(): Promise<readonly string[]>;
  /** A Checkpoint that its caller waits for. */
  saved(image?: string): Promise<readonly string[]>;
}

/** A container with a stock shim whose Checkpoint waits for a cancel when `waits`. */
async function stage(t: TestContext, moreMs = 0): Promise<Stage> {
  const now = performance.now.bind(performance);
  t.after(() => Object.assign(performance, { now }));
  Object.assign(performance, { now: () => now() + moreMs });
  let waits = false;
  let cancelled = () => {};
  const one = {
    status: 2,
    codes: {} as Record<string, number>,
    pausesAgain: false,
    explaining: Promise.resolve(),
    pausedAgain: [] as Buffer[],
    async abandoned() {
      waits = true;
      const payload = Buffer.concat([id, bytesField(2, '/image')]);
      const at = made.asked.length;
      const begun = made.seen.length;
      const call = made.client.call({ service, method: 'Checkpoint', payload }, 100);
      await assert.rejects(call, { code: 'E_TIMEOUT' });
      await until('the end', () => made.asked.slice(at).some(([task]) => task === 'explain'));
      waits = false;
      return later(begun);
    },
    async saved(image = '/image') {
      const begun = made.seen.length;
      await made.call('Checkpoint', id, bytesField(2, image));
      return later(begun);
    },
  };
  const made = await world(t, {
    answering: async ({ method }) => {
      const code = one.codes[method] ?? 0;
      if (method === 'State') return { code, payload: state(one.status) };
      if (code === 0 && method === 'Pause') one.status = 4;
      if (code === 0 && method === 'Resume') one.status = 2;
      if (method !== 'Checkpoint' || !waits) return { code };
      await new Promise<void>((resolve) => {
        cancelled = resolve;
      });
      return { code: 2, message: 'criu failed' };
    },
    help: async ([task], input) => {
      if (task === 'explain') await one.explaining;
      if (task === 'cancel-checkpoint') cancelled();
      if (task === 'pause-again') {
        await delay(50); // as a process does
        one.pausedAgain.push(input);
        if (!one.pausesAgain) throw new Error('runc: container not running');
        delete one.codes['Resume'];
      }
      return Buffer.alloc(0);
    },
  });
  const later = (begun: number) => {
    const methods = made.seen.slice(begun).map(({ method }) => method);
    return methods.slice(methods.indexOf('Checkpoint') + 1);
  };
  await made.call('Create', id, bytesField(2, made.bundle));
  return Object.assign(one, made);
}

test('a pause right before ends, on a host that has run for long, too', async (t) => {
  const one = await stage(t, 10 ** 9);
  await one.call('Pause', id);
  assert.deepEqual(await one.abandoned(), ['State', 'Resume']);
  assert.deepEqual([one.status, one.troubles], [2, []]);
  // It has ended, and another one is somebody else's.
  one.status = 4;
  assert.deepEqual(await one.saved(), []);
  assert.deepEqual(await one.abandoned(), []);
  assert.equal(one.status, 4);
});

test('a caller that goes while a failure is explained to it leaves no pause', async (t) => {
  const one = await stage(t);
  await one.call('Pause', id);
  one.codes['Checkpoint'] = 2;
  one.codes['Resume'] = 9; // it runs, and needs another pause first
  one.pausesAgain = true;
  let explained = () => {};
  one.explaining = new Promise<void>((resolve) => {
    explained = resolve;
  });
  const begun = one.seen.length;
  const payload = Buffer.concat([id, bytesField(2, '/image')]);
  const call = one.client.call({ service, method: 'Checkpoint', payload }, 5000);
  await until('an explanation', () => one.asked.some(([task]) => task === 'explain'));
  one.client.close(); // a daemon that is killed
  await assert.rejects(call);
  await until(
    'another State',
    () => one.seen.filter(({ method }) => method === 'State').length > 1,
  );
  explained(); // before the pause has ended
  await until('the end of the pause', () => one.status === 2);
  const methods = one.seen.slice(begun).map(({ method }) => method);
  assert.deepEqual(methods, ['State', 'Checkpoint', 'State', 'Resume', 'State', 'Resume']);
  assert.equal(one.pausedAgain.length, 1);
});

test('a pause that failed or was ended before is none', async (t) => {
  const one = await stage(t);
  one.status = 4;
  one.codes['Pause'] = 9;
  await one.call('Pause', id);
  assert.deepEqual(await one.abandoned(), []);
  one.codes['Pause'] = 0;
  await one.call('Pause', id);
  await one.call('Resume', id);
  one.status = 4;
  assert.deepEqual(await one.abandoned(), []);
  // A Resume that failed has ended nothing.
  await one.call('Pause', id);
  one.codes['Resume'] = 9;
  await one.call('Resume', id);
  one.codes['Resume'] = 0;
  assert.deepEqual(await one.abandoned(), ['State', 'Resume']);
});

test('what is not paused is not resumed; what cannot be resumed is told', async (t) => {
  const one = await stage(t);
  await one.call('Pause', id);
  one.status = 2;
  assert.deepEqual(await one.abandoned(), ['State'], 'somebody has resumed it');
  await one.call('Pause', id);
  one.codes['State'] = 5;
  assert.deepEqual(await one.abandoned(), ['State'], 'nobody knows');
  one.codes['State'] = 0;
  assert.deepEqual(one.troubles, []);
  one.codes['Resume'] = 9;
  assert.deepEqual(await one.abandoned(), ['State', 'Resume', 'State']);
  const told = ['Error: runc: container not running', 'Error: resume: '];
  assert.deepEqual(one.troubles.map(String), told);
});

test('one that runs while it counts as paused, after a killed CRIU, is paused again and resumed', async (t) => {
  const one = await stage(t);
  one.pausesAgain = true;
  await one.call('Pause', id);
  one.codes['Resume'] = 9;
  const { code } = await one.call('Resume', id);
  assert.deepEqual([code, one.status, one.troubles], [0, 2, []]);
  const [create] = one.pausedAgain;
  assert.equal(create && field(create, 2), one.bundle, 'the runtime is in the request of Create');
  // What is not paused needs nothing.
  one.codes['Resume'] = 9;
  assert.equal((await one.call('Resume', id)).code, 9);
  assert.equal(one.pausedAgain.length, 1);
});

test('what the runtime cannot pause again keeps the first answer, and that is told', async (t) => {
  const one = await stage(t);
  await one.call('Pause', id);
  one.codes['Resume'] = 9;
  assert.equal((await one.call('Resume', id)).code, 9);
  assert.deepEqual(one.troubles.map(String), ['Error: runc: container not running']);
});

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
