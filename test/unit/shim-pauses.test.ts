/** Whose pause a checkpoint ends when its caller goes, and pauses that end although the container runs. */

import assert from 'node:assert/strict';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { bytesField } from '../../src/protobuf.js';
import { field, id, service } from './intercept-world.js';
import { until } from './shim-host.js';
import { stage } from './shim-stage.js';

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

test('a caller who goes after the answer of the stock shim leaves no pause', async (t) => {
  const one = await stage(t);
  const image = join(one.folder, 'ctrd-checkpoint45');
  await mkdir(image);
  await one.call('Pause', id);
  one.codes['Checkpoint'] = 2;
  let explained = () => {};
  one.explaining = new Promise<void>((resolve) => {
    explained = resolve;
  });
  const saved = one.call('Checkpoint', id, bytesField(2, image));
  await until('an explanation', () => one.asked.some(([task]) => task === 'explain'));
  // containerd gives it up; its connection stays.
  await rm(image, { recursive: true });
  explained();
  assert.equal((await saved).code, 2);
  await until('the end of the pause', () => one.status === 2);
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
