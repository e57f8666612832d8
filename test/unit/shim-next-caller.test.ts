/** A kubelet whose time is over asks again at once: the second call does what the first would have done. */

import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { bytesField, numberField } from '../../src/protobuf.js';
import type { Call } from '../../src/ttrpc/envelope.js';
import { field, id, service, type World, world } from './intercept-world.js';
import { until } from './shim-host.js';

const image = Buffer.concat([id, bytesField(2, '/image')]);
const paused = 4;
const running = 2;

interface Stage extends World {
  status: number;
  /** Names of calls that the stock shim has seen, without State. */
  readonly names: () => string[];
  /** Ends the Checkpoint that runs, and the Pause that is held. */
  release(): void;
  holdsPause: boolean;
  readonly state: () => Promise<string>;
}

/** A stock shim that answers nothing but State's own lock while its Checkpoint runs: it ends by `release`. */
async function stage(t: TestContext): Promise<Stage> {
  let release = () => {};
  const one = {
    status: running,
    holdsPause: false,
    names: () => made.seen.map(({ method }) => method).filter((method) => method !== 'State'),
    release: () => release(),
    state: async () => field((await made.call('State', id)).payload, 4),
  };
  const made = await world(t, {
    answering: async ({ method }: Call) => {
      if (method === 'State') return { payload: Buffer.concat([id, numberField(4, one.status)]) };
      if (method === 'Resume') one.status = running;
      if (method === 'Checkpoint' || (method === 'Pause' && one.holdsPause)) {
        await new Promise<void>((resolve) => {
          release = resolve;
        });
      }
      if (method === 'Pause') one.status = paused;
      return method === 'Checkpoint' ? { code: 2, message: 'cancelled' } : {};
    },
  });
  await made.call('Create', id, bytesField(2, made.bundle));
  return Object.assign(one, made);
}

/** Begins a checkpoint as containerd's clients do, and goes while it runs. */
async function abandoned(one: Stage): Promise<void> {
  await one.call('Pause', id);
  const call = one.client.call({ service, method: 'Checkpoint', payload: image }, 100);
  await assert.rejects(call, { code: 'E_TIMEOUT' });
  await until('a cancel', () => one.asked.some(([task]) => task === 'cancel-checkpoint'));
}

test('the next caller sees a running container, pauses after the resume, and makes its checkpoint', async (t) => {
  const one = await stage(t);
  await abandoned(one);
  assert.equal(await one.state(), String(running), 'or it would not pause, and not resume');
  const second = one.call('Pause', id);
  await delay(50);
  assert.deepEqual(one.names(), ['Create', 'Pause', 'Checkpoint'], 'it waits');
  one.release();
  assert.equal((await second).code, 0);
  assert.deepEqual(one.names(), ['Create', 'Pause', 'Checkpoint', 'Resume', 'Pause']);
  assert.equal(one.status, paused);
  const saved = one.call('Checkpoint', id, bytesField(2, '/image'));
  await until('a checkpoint', () => one.names().length === 6);
  assert.equal(await one.state(), String(paused));
  one.release();
  await saved;
  assert.deepEqual([one.names().length, one.status], [6, paused], 'its caller resumes it');
  assert.deepEqual(one.troubles, []);
});

test('a pause of somebody else lasts, also for the next caller', async (t) => {
  const one = await stage(t);
  one.status = paused; // before the shim knew of it
  const call = one.client.call({ service, method: 'Checkpoint', payload: image }, 100);
  await assert.rejects(call, { code: 'E_TIMEOUT' });
  await until('a cancel', () => one.asked.some(([task]) => task === 'cancel-checkpoint'));
  assert.equal(await one.state(), String(paused));
  one.release();
  await until('an explanation', () => one.asked.some(([task]) => task === 'explain'));
  assert.equal(one.status, paused);
});

test('a caller that goes while its pause waits makes none', async (t) => {
  const one = await stage(t);
  await abandoned(one);
  const second = one.client.call({ service, method: 'Pause', payload: id }, 100);
  await assert.rejects(second, { code: 'E_TIMEOUT' });
  await delay(50);
  one.release();
  await until('the end of the pause', () => one.status === running);
  // Each later call comes after the one that waited.
  await one.call('Pids', id);
  assert.deepEqual(one.names(), ['Create', 'Pause', 'Checkpoint', 'Resume', 'Pids']);
});

test('a pause whose caller goes while it is made ends: that caller does not resume', async (t) => {
  const one = await stage(t);
  one.holdsPause = true;
  const call = one.client.call({ service, method: 'Pause', payload: id }, 100);
  await assert.rejects(call, { code: 'E_TIMEOUT' });
  await delay(50);
  one.release();
  await until('a resume', () => one.names().includes('Resume'));
  assert.equal(one.seen.find(({ method }) => method === 'Pause')?.timeoutNs, 0n);
  assert.equal(one.status, running);
});
