import assert from 'node:assert/strict';
import { mkdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { bytesField, numberField } from '../../src/protobuf.js';
import { type Call, encodeResponse } from '../../src/ttrpc/envelope.js';
import { field, id, service, type World, world } from './intercept-world.js';
import { until } from './shim-host.js';

const state = (status: number) => Buffer.concat([id, numberField(4, status)]);
const noSession = encodeResponse({ code: 5, message: 'no session', payload: Buffer.alloc(0) });

interface Stage extends World {
  /** Names of calls that the stock shim has seen, without State. */
  readonly names: () => string[];
  readonly tasks: () => (string | undefined)[];
  status: number;
}

/** A stock shim whose Checkpoint and Start end, with a failure, when the session has been cancelled. */
async function stage(t: TestContext, sessionAt = 1): Promise<Stage> {
  let cancel = () => {};
  const cancelled = new Promise<void>((resolve) => {
    cancel = resolve;
  });
  let attempts = 0;
  const one = {
    status: 2,
    names: () => made.seen.map(({ method }) => method).filter((method) => method !== 'State'),
    tasks: () => made.asked.map(([task]) => task),
  };
  const made = await world(t, {
    answering: async ({ method }: Call) => {
      if (method === 'State') return { payload: state(one.status) };
      if (method === 'Pause') one.status = 4;
      if (method === 'Resume') one.status = 2;
      if (method !== 'Checkpoint' && method !== 'Start') return {};
      await cancelled;
      return { code: 2, message: 'criu failed' };
    },
    help: ([task]) => {
      if (!task?.startsWith('cancel-')) return Buffer.alloc(0);
      attempts += 1;
      if (attempts < sessionAt) return noSession;
      cancel();
      return Buffer.alloc(0);
    },
  });
  await made.call('Create', id, bytesField(2, made.bundle));
  return Object.assign(one, made);
}

test('a checkpoint whose caller goes is cancelled, and the pause that came with it ends', async (t) => {
  const one = await stage(t);
  await one.call('Pause', id);
  const saved = one.call('Checkpoint', id, bytesField(2, '/image'));
  await until('a checkpoint', () => one.names().includes('Checkpoint'));
  one.client.close();
  await assert.rejects(saved, { code: 'E_PROTOCOL' });
  await until('the end of the pause', () => one.status === 2);
  assert.deepEqual(one.names(), ['Create', 'Pause', 'Checkpoint', 'Resume']);
  await until('an explanation', () => one.tasks().includes('explain'));
  assert.deepEqual(one.tasks(), ['publish', 'cancel-checkpoint', 'explain']);
  assert.deepEqual(one.troubles, []);
});

test('a caller whose time is over has gone, and runc is not killed for it', async (t) => {
  const one = await stage(t);
  await one.call('Pause', id);
  const payload = Buffer.concat([id, bytesField(2, '/image')]);
  const call = one.client.call({ service, method: 'Checkpoint', payload }, 300);
  await assert.rejects(call, { code: 'E_TIMEOUT' });
  await until('the end of the pause', () => one.status === 2);
  assert.deepEqual(one.names(), ['Create', 'Pause', 'Checkpoint', 'Resume']);
  const { timeoutNs } = one.seen.find(({ method }) => method === 'Checkpoint') as Call;
  assert.equal(timeoutNs, 0n, 'the stock shim would kill runc');
  assert.equal((await one.call('Checkpoint', id, bytesField(2, '/image'))).code, 2, 'the next one');
});

test('a checkpoint of a container that is told to end is cancelled, and its caller hears of it', async (t) => {
  const tasks = ['publish', 'cancel-checkpoint', 'explain'];
  for (const signal of [2, 3, 9, 15]) {
    const one = await stage(t);
    const saved = one.call('Checkpoint', id, bytesField(2, '/image'));
    await until('a checkpoint', () => one.names().includes('Checkpoint'));
    // A signal for another process, and one that ends nothing.
    await one.call('Kill', id, bytesField(2, 'exec'), numberField(3, signal));
    await one.call('Kill', id, numberField(3, 10));
    assert.deepEqual(one.tasks(), ['publish']);
    await one.call('Kill', id, numberField(3, signal));
    assert.equal((await saved).code, 2);
    assert.deepEqual(one.tasks(), tasks);
    // Nothing runs that could be cancelled.
    await one.call('Kill', id, numberField(3, signal));
    assert.deepEqual(one.tasks(), tasks);
    assert.deepEqual(one.names(), ['Create', 'Checkpoint', 'Kill', 'Kill', 'Kill', 'Kill']);
  }
});

test('an image directory that containerd has removed says that the caller has gone', async (t) => {
  const one = await stage(t);
  const image = join(one.folder, 'ctrd-checkpoint42');
  await mkdir(image);
  await one.call('Pause', id);
  const saved = one.call('Checkpoint', id, bytesField(2, image));
  await until('a checkpoint', () => one.names().includes('Checkpoint'));
  await rm(image, { recursive: true });
  assert.equal((await saved).code, 2);
  assert.deepEqual([one.status, one.tasks()[1]], [2, 'cancel-checkpoint']);
});

test('an image directory that runc has made again is not the one of the caller', async (t) => {
  const one = await stage(t);
  const image = join(one.folder, 'ctrd-checkpoint43');
  await mkdir(image);
  await one.call('Pause', id);
  const saved = one.call('Checkpoint', id, bytesField(2, image));
  await until('a checkpoint', () => one.names().includes('Checkpoint'));
  await rename(image, `${image}0`);
  await mkdir(image);
  assert.equal((await saved).code, 2);
  assert.deepEqual([one.status, one.tasks()[1]], [2, 'cancel-checkpoint']);
});

test('a checkpoint that containerd has given up before is not begun, and its pause ends', async (t) => {
  const one = await stage(t);
  await one.call('Pause', id);
  const { code, message } = await one.call(
    ...(['Checkpoint', id, bytesField(2, join(one.folder, 'ctrd-checkpoint44'))] as const),
  );
  assert.deepEqual([code, message.split(':')[0]], [1, 'E_CANCELLED']);
  assert.deepEqual([one.status, one.names()], [2, ['Create', 'Pause', 'Resume']]);
});

test('a pause that the caller has not made stays', async (t) => {
  const now = performance.now.bind(performance);
  t.after(() => Object.assign(performance, { now }));
  const one = await stage(t);
  await one.call('Pause', id);
  Object.assign(performance, { now: () => now() + 60_000 });
  const saved = one.call('Checkpoint', id, bytesField(2, '/image'));
  await until('a checkpoint', () => one.names().includes('Checkpoint'));
  one.client.close();
  await assert.rejects(saved);
  await until('an explanation', () => one.tasks().includes('explain'));
  assert.deepEqual([one.status, one.names()], [4, ['Create', 'Pause', 'Checkpoint']]);
});

test('State says no longer paused for the next caller when the first has gone', async (t) => {
  const one = await stage(t, Number.POSITIVE_INFINITY);
  const payload = Buffer.concat([id, bytesField(2, '/image')]);
  const saved = one.client.call({ service, method: 'Checkpoint', payload }, 200);
  await until('a checkpoint', () => one.names().includes('Checkpoint'));
  assert.equal(field((await one.call('State', id)).payload, 4), '4');
  await assert.rejects(saved, { code: 'E_TIMEOUT' });
  await until('a cancel', () => one.tasks().includes('cancel-checkpoint'));
  assert.equal(field((await one.call('State', id)).payload, 4), '2', 'of the stock shim');
});

test('a Resume whose time is over is still made', async (t) => {
  const one = await stage(t);
  await one.call('Pause', id);
  await one.client.call({ service, method: 'Resume', payload: id }, 200);
  assert.equal(one.seen.at(-1)?.timeoutNs, 0n);
});

test('a restore whose caller goes is cancelled, however late its session comes, and its rest ended', async (t) => {
  const one = await stage(t, 4);
  await one.call('Create', id, bytesField(2, one.bundle), bytesField(8, '/image'));
  const start = one.call('Start', id);
  await until('a restore', () => one.names().includes('Start'));
  one.client.close();
  await assert.rejects(start, { code: 'E_PROTOCOL' });
  await until('an explanation', () => one.tasks().includes('explain'));
  const cancels = Array.from({ length: 4 }, () => 'cancel-restore');
  assert.deepEqual(one.tasks(), [...cancels, 'end-leftover', 'explain']);
  await delay(50);
  assert.equal(one.tasks().length, 6, 'nothing is cancelled after the end');
});

test('SIGKILL for a container in its restore cancels that, and is sent without its deadline', async (t) => {
  const one = await stage(t);
  await one.call('Create', id, bytesField(2, one.bundle), bytesField(8, '/image'));
  const kill = async (signal: number) => {
    await one.call('Kill', id, numberField(3, signal));
    return one.seen.at(-1)?.timeoutNs === 0n;
  };
  assert.equal(await kill(9), false, 'before the restore');
  const start = one.call('Start', id);
  await until('a restore', () => one.names().includes('Start'));
  assert.equal(await kill(15), false, 'SIGTERM');
  await one.call('Kill', id, bytesField(2, 'exec'), numberField(3, 9));
  assert.notEqual(one.seen.at(-1)?.timeoutNs, 0n, 'another process');
  assert.deepEqual(one.tasks(), []);
  assert.equal(await kill(9), true);
  assert.equal((await start).code, 2);
  assert.deepEqual(one.asked.slice(0, 2), [['cancel-restore', 'ended'], ['end-leftover']]);
  assert.equal(await kill(9), false, 'after the restore');
});

test('Delete for a container in its restore cancels that, and comes after it', async (t) => {
  const one = await stage(t);
  await one.call('Create', id, bytesField(2, one.bundle), bytesField(8, '/image'));
  const start = one.call('Start', id);
  await until('a restore', () => one.names().includes('Start'));
  await one.call('Delete', id, bytesField(2, 'exec'));
  assert.deepEqual(one.tasks(), [], 'another process');
  assert.equal((await one.call('Delete', id)).code, 0);
  assert.equal((await start).code, 2);
  assert.deepEqual(one.asked, [
    ['cancel-restore', 'ended'],
    ['end-leftover'],
    ...one.asked.slice(-1),
  ]);
  assert.deepEqual(one.names(), ['Create', 'Create', 'Start', 'Delete', 'Delete']);
});

test('Delete for a container whose restore could not be cancelled any more kills it first', async (t) => {
  let restored = () => {};
  const done = new Promise<void>((resolve) => {
    restored = resolve;
  });
  const { bundle, call, seen } = await world(t, {
    answering: async ({ method }: Call) => {
      if (method === 'Start') await done;
      return {};
    },
    help: ([task]) => {
      // Too late.
      if (task === 'cancel-restore') restored();
      return Buffer.alloc(0);
    },
  });
  await call('Create', id, bytesField(2, bundle), bytesField(8, '/image'));
  const start = call('Start', id);
  await until('a restore', () => seen.some(({ method }) => method === 'Start'));
  assert.equal((await call('Delete', id)).code, 0);
  assert.equal((await start).code, 0);
  assert.deepEqual(
    seen.map(({ method }) => method),
    ['Create', 'Start', 'Kill', 'Wait', 'Delete'],
  );
  const { payload } = seen[2] as Call;
  assert.deepEqual(
    [1, 3, 4].map((number) => field(payload, number)),
    ['one', '9', '1'],
  );
});

test('an attempt to cancel ends with its call: the next one may have the same image', async (t) => {
  for (const method of ['Checkpoint', 'Start']) {
    let fail = () => {};
    const failed = new Promise<void>((resolve) => {
      fail = resolve;
    });
    const attempts: (AbortSignal | undefined)[] = [];
    const afterwards: [task: string, isEnded: boolean | undefined][] = [];
    const { bundle, call, client, troubles } = await world(t, {
      answering: async (request: Call) => {
        if (request.method !== method) return {};
        await failed;
        return { code: 2, message: 'runc failed early' };
      },
      help: ([task], _, signal) => {
        if (task === 'end-leftover' || task === 'explain') {
          afterwards.push([task, attempts[0]?.aborted]);
        }
        if (!task?.startsWith('cancel-')) return Buffer.alloc(0);
        attempts.push(signal);
        // It waits for a session that does not come.
        return new Promise((_resolve, reject) => {
          signal?.addEventListener('abort', () => reject(new Error('killed')));
        });
      },
    });
    await call('Create', id, bytesField(2, bundle), bytesField(8, '/image'));
    await assert.rejects(client.call({ service, method, payload: id }, 100), { code: 'E_TIMEOUT' });
    await until('an attempt', () => attempts.length === 1);
    fail();
    await until('the end of the attempt', () => attempts[0]?.aborted === true);
    await until('an explanation', () => afterwards.some(([task]) => task === 'explain'));
    await delay(20);
    assert.deepEqual([attempts.length, troubles], [1, []], method);
    const leftover = [['end-leftover', true]];
    const steps = [...(method === 'Start' ? leftover : []), ['explain', true]];
    assert.deepEqual(afterwards, steps, 'it would find the next session meanwhile');
  }
});
