/** Memory for what arrives: one mount for each migration, and who gives it back. */

import assert from 'node:assert/strict';
import { existsSync, readFileSync, statfsSync, statSync, writeFileSync } from 'node:fs';
import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { writeRecord } from '../../src/migrate/journal.js';
import { holdMemory, releaseMemory } from '../../src/migrate/memory.js';
import { placesBelow } from '../../src/migrate/places.js';
import { prepareStore, removeContents } from '../../src/migrate/store.js';
import { type Run, run } from '../../src/os/exec.js';
import { Lock } from '../../src/os/lock.js';
import { firstRecords } from './migrate-processes.js';
import { until } from './migrate-two-places.js';
import { temporaryFolder } from './paths.js';

const { id } = firstRecords.target;

/** A folder takes the place of a mount. */
function noMounts(status = 0) {
  const calls: string[] = [];
  const fake: Run = async (command, args) => {
    calls.push([command, ...args].join(' '));
    return { status, stdout: '', stderr: 'mount: not permitted\n' };
  };
  return { calls, run: fake };
}

test('it is a tmpfs for root alone, of the size that was promised', async (t) => {
  const folder = join(await temporaryFolder(t), 'below', 'x.memory');
  const { calls, run: mounts } = noMounts();
  await holdMemory(folder, 4096.5, mounts);
  const options = 'size=4097,mode=0700,nosuid,nodev,noexec';
  assert.deepEqual(calls, [`mount -t tmpfs -o ${options} kfd-checkpoint ${folder}`]);
  assert.equal(statSync(folder).mode & 0o777, 0o700);
  // A tmpfs of size 0 has no limit.
  await holdMemory(`${folder}.0`, 0, mounts);
  assert.match(calls[1] ?? '', /size=1,/);
});

test('a host that mounts none is told, with the option for a folder', async (t) => {
  const folder = join(await temporaryFolder(t), 'x.memory');
  await assert.rejects(holdMemory(folder, 1, noMounts(32).run), {
    code: 'E_HOST',
    message: `${folder}: no tmpfs can be mounted there: mount: not permitted`,
    hint: 'name a folder with --store',
  });
  await assert.rejects(
    holdMemory(`${folder}.2`, 1, async () => undefined),
    /no such program/,
  );
});

const canMount = process.getuid?.() === 0;

test('a mounted one is bounded, and is gone although somebody uses it', {
  skip: !canMount && 'only root mounts',
}, async (t) => {
  const folder = join(await temporaryFolder(t), 'x.memory');
  await holdMemory(folder, 1 << 20, run);
  t.after(() => run('umount', ['-l', folder]));
  const { blocks, bsize } = statfsSync(folder);
  assert.equal(blocks * bsize, 1 << 20);
  assert.throws(() => writeFileSync(join(folder, 'more'), Buffer.alloc(2 << 20)), /ENOSPC/);
  await mkdir(join(folder, 'contents'));
  const before = process.cwd();
  process.chdir(folder);
  t.after(() => process.chdir(before));
  await releaseMemory(folder, run);
  assert.equal(existsSync(folder), false);
  assert.ok(!readFileSync('/proc/self/mountinfo', 'utf8').includes(folder));
  await releaseMemory(folder, run);
});

/** A migration that has begun, played by whoever has the lock. */
async function begun(root: string, mark: string) {
  const places = placesBelow(root);
  const lock = await Lock.tryTake(places.lock(id));
  const self = ['sh', '-c', `echo "$*" >>${mark}`, 'sh'];
  const folder = await prepareStore(id, { bytes: 1 }, { root, run: noMounts().run, self });
  assert.ok(lock);
  return { places, lock, folder };
}

test('what the killed process of a target has held is swept', async (t) => {
  const root = await temporaryFolder(t);
  const mark = join(root, 'swept');
  const { places, lock, folder } = await begun(root, mark);
  assert.equal(folder, places.memory(id));
  assert.equal(existsSync(mark), false);
  // The kernel gives a lock back when its process has gone.
  await lock.release();
  // The shell makes the file before it writes.
  await until('swept', () => existsSync(mark) && readFileSync(mark, 'utf8') !== '');
  assert.equal(readFileSync(mark, 'utf8'), `migrate-sweep --root ${root}\n`);
});

test('what has gone by itself is not swept', async (t) => {
  const root = await temporaryFolder(t);
  const mark = join(root, 'swept');
  const { places, lock, folder } = await begun(root, mark);
  await removeContents(id, folder, places, noMounts().run);
  await lock.remove();
  const waits = async () =>
    (await readdir('/proc')).some((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(`--root\0${root}\0`);
      } catch {
        return false;
      }
    });
  while (await waits()) await new Promise((resolve) => setTimeout(resolve, 20));
  assert.equal(existsSync(mark), false);
});

test('a folder that the source names is no memory, and gets what is left there removed', async (t) => {
  const root = await temporaryFolder(t);
  const places = placesBelow(root);
  const store = join(root, 'store');
  const [dead, recorded] = ['1a'.repeat(16), '2b'.repeat(16)];
  for (const name of [dead, recorded, 'of somebody else'])
    await mkdir(join(store, name), { recursive: true });
  await writeRecord({ ...firstRecords.target, id: recorded, phase: 'ready' }, places.journal);
  await writeFile(join(store, dead, 'checkpoint.tar'), 'x');
  const { calls, run: mounts } = noMounts();
  const setting = { root, run: mounts, self: ['false'] };
  const folder = await prepareStore(id, { folder: store }, setting);
  assert.deepEqual([folder, calls], [join(store, id), []]);
  const left = [id, recorded, 'of somebody else'].sort();
  assert.deepEqual((await readdir(store)).sort(), left);
  await removeContents(id, folder, places, mounts);
  assert.equal(existsSync(folder), false);
});
