/**
 * What a migration does with a task of containerd, on one host: it ends with its checkpoint, comes back in place, and
 * is made again of its record where nothing of it is left. By the guest's release of containerd, and by the next one.
 */

import assert from 'node:assert/strict';
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { run, until } from './support/command.js';
import {
  Containerd,
  ctr,
  haveNextRelease,
  nextRelease,
  shimsLeft,
  Task,
} from './support/containerd.js';

const folder = '/tmp/task-moves';
const program = 'kfd-checkpoint migrate-task';

/** Descriptor 4 gets the archive. */
async function save(task: Task, name: string): Promise<{ saved: string; archive: string }> {
  const [saved, archive] = [join(folder, name), join(folder, `${name}.tar`)];
  await run('sh', '-c', `${program} save ${task.id} ${saved} 4>${archive}`);
  assert.equal(await task.status(), 'STOPPED');
  await run('kfd-checkpoint', 'verify', '--quiet', join(saved, 'checkpoint'));
  return { saved, archive };
}

async function moves(id: string): Promise<void> {
  mkdirSync(folder);
  const task = await Task.startWithGpu(id, '--vram-mib', '16', '--pending-barrier');
  await run('ctr', 'task', 'exec', '--exec-id', 'one', id, 'sh', '-c', 'echo kept >/written');

  const first = await save(task, 'first');
  await run('sh', '-c', `${program} restore ${id} ${first.saved}`);
  assert.equal(await task.status(), 'RUNNING');
  assert.match(await task.control.ask('verify'), /^verified .*barrier=completed/);

  const { archive } = await save(task, 'second');
  await task.end();
  assert.notEqual((await ctr('container', 'info', id)).status, 0);
  const [room, arrived] = [join(folder, 'room'), join(folder, 'arrived')];
  for (const one of [room, arrived]) mkdirSync(one);
  await run('tar', '-C', arrived, '-xf', archive);
  await run('sh', '-c', `${program} start ${id} ${arrived} ${room}`);
  assert.equal(await task.status(), 'RUNNING');
  assert.match(await task.control.ask('verify'), /^verified .*barrier=completed/);
  const words = ['task', 'exec', '--exec-id', 'two', id, 'cat', '/written'];
  assert.equal((await run('ctr', ...words)).trim(), 'kept');
  assert.ok(!(await run('ctr', 'image', 'ls')).includes('kfd-checkpoint-moves'));
  await task.remove();
  rmSync(folder, { recursive: true });
}

test('containerd: tasks move', async (suite) => {
  const containerd = await Containerd.start();
  try {
    await suite.test('containerd: a task moves', () => moves('moves'));
    const skip = haveNextRelease ? false : 'there was no second containerd when the guest was made';
    await suite.test('containerd: a task moves, by the next release', { skip }, async () => {
      await containerd.restart(nextRelease);
      await moves('moves-next');
    });
    await until('the end of the shims', async () => (await shimsLeft()).length === 0, 20);
  } finally {
    await containerd.stop();
  }
});
