/**
 * What a migration does with a task of containerd, on one host: it ends with its checkpoint, comes back in place, and
 * is made again of its record where nothing of it is left. By the guest's release of containerd, and by the next one.
 */

import assert from 'node:assert/strict';
import { existsSync, mkdirSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { run, until } from './support/command.js';
import {
  Containerd,
  ctr,
  haveNextRelease,
  nextRelease,
  shimsLeft,
  Task,
} from './support/containerd.js';
import { partTest } from './support/part.js';

const folder = '/tmp/task-moves';
const program = 'kfd-checkpoint migrate-task';

/** Descriptor 4 gets the archive. With memory that is saved before, the image has what has changed since. */
async function save(
  task: Task,
  name: string,
  { ahead = false } = {},
): Promise<{ saved: string; archive: string; memory: string }> {
  const [saved, archive, memory] = ['', '.tar', '.memory.tar'].map((end) =>
    join(folder, `${name}${end}`),
  ) as [string, string, string];
  if (ahead) {
    await run('sh', '-c', `${program} memory ${task.id} ${saved} 4>${memory}`);
    assert.equal(await task.status(), 'RUNNING');
    assert.match(await task.control.ask('verify'), /^verified /);
  }
  const option = ahead ? '--previous' : '';
  await run('sh', '-c', `${program} save ${option} ${task.id} ${saved} 4>${archive}`);
  assert.equal(await task.status(), 'STOPPED');
  assert.equal(existsSync(join(saved, 'checkpoint/parent/inventory.img')), ahead);
  await run('kfd-checkpoint', 'verify', '--quiet', join(saved, 'checkpoint'));
  return { saved, archive, memory };
}

async function moves(id: string): Promise<void> {
  mkdirSync(folder);
  const worker = ['--vram-mib', '16', '--host-mib', '64', '--pending-barrier'];
  const task = await Task.startWithGpu(id, ...worker);
  await run('ctr', 'task', 'exec', '--exec-id', 'one', id, 'sh', '-c', 'echo kept >/written');

  const first = await save(task, 'first');
  await run('sh', '-c', `${program} restore ${id} ${first.saved}`);
  assert.equal(await task.status(), 'RUNNING');
  assert.match(await task.control.ask('verify'), /^verified .*barrier=completed/);

  const ahead = await save(task, 'ahead', { ahead: true });
  await run('sh', '-c', `${program} restore ${id} ${ahead.saved}`);
  assert.match(await task.control.ask('verify'), /^verified .*barrier=completed/);

  const { archive, memory } = await save(task, 'second', { ahead: true });
  const [whole, changed] = [statSync(memory).size, statSync(archive).size];
  assert.ok(whole > 64 << 20 && changed < whole / 2, `${changed} bytes after ${whole} ahead`);
  await task.end();
  assert.notEqual((await ctr('container', 'info', id)).status, 0);
  const [room, arrived] = [join(folder, 'room'), join(folder, 'arrived')];
  for (const one of [room, arrived]) mkdirSync(one);
  for (const one of [memory, archive]) await run('tar', '-C', arrived, '-xf', one);
  await run('sh', '-c', `${program} start ${id} ${arrived} ${room}`);
  assert.equal(await task.status(), 'RUNNING');
  assert.match(await task.control.ask('verify'), /^verified .*barrier=completed/);
  const words = ['task', 'exec', '--exec-id', 'two', id, 'cat', '/written'];
  assert.equal((await run('ctr', ...words)).trim(), 'kept');
  assert.ok(!(await run('ctr', 'image', 'ls')).includes('kfd-checkpoint-moves'));
  await task.remove();
  rmSync(folder, { recursive: true });
}

partTest('tasks move', {}, async (suite) => {
  const containerd = await Containerd.start();
  try {
    await suite.test('a task moves', () => moves('moves'));
    const skip = haveNextRelease ? false : 'there was no second containerd when the guest was made';
    await suite.test('a task moves, by the next release', { skip }, async () => {
      await containerd.restart(nextRelease);
      await moves('moves-next');
    });
    await until('the end of the shims', async () => (await shimsLeft()).length === 0, 20);
  } finally {
    await containerd.stop();
  }
});
