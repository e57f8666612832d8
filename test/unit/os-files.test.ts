import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { constants, promises } from 'node:fs';
import { mkdir, open, readdir, readFile, stat, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import {
  readBounded,
  readHeadIfAny,
  readTextIfAny,
  replaceFile,
  syncFolder,
} from '../../src/os/files.js';
import { temporaryFolder } from './paths.js';

/** Notes what is done with files, in order. `fail`: the call with this note throws. */
function watched(t: TestContext, fail?: string): string[] {
  const notes: string[] = [];
  const { open: realOpen, rename: realRename } = promises;
  const note = (text: string) => {
    notes.push(text);
    if (text === fail) throw new Error(fail);
  };
  promises.open = async (path, flags, mode) => {
    const handle = await realOpen(path, flags, mode);
    const what = String(path).endsWith('.tmp') ? 'file' : 'folder';
    const [sync, close] = [handle.sync.bind(handle), handle.close.bind(handle)];
    handle.sync = async () => {
      note(`sync ${what}`);
      await sync();
    };
    handle.close = async () => {
      notes.push(`close ${what}`);
      await close();
    };
    return handle;
  };
  promises.rename = async (from, to) => {
    note('rename');
    await realRename(from, to);
  };
  t.after(() => Object.assign(promises, { open: realOpen, rename: realRename }));
  return notes;
}

test('a file is on the disk before it gets its name, and its name before the call returns', async (t) => {
  const path = join(await temporaryFolder(t), 'new/folder/file');
  const notes = watched(t);
  await replaceFile(path, 'text', 0o640);
  assert.deepEqual(notes, ['sync file', 'close file', 'rename', 'sync folder', 'close folder']);
  assert.equal(await readFile(path, 'utf8'), 'text');
});

test('the mode is the one asked for, whatever the umask', async (t) => {
  const path = join(await temporaryFolder(t), 'file');
  const before = process.umask(0o077);
  t.after(() => process.umask(before));
  await replaceFile(path, 'text', 0o666);
  assert.equal((await stat(path)).mode & 0o777, 0o666);
});

for (const fail of ['sync file', 'rename']) {
  test(`a ${fail} that fails leaves the old file, and no other`, async (t) => {
    const folder = await temporaryFolder(t);
    const path = join(folder, 'file');
    await writeFile(path, 'old');
    const notes = watched(t, fail);
    await assert.rejects(replaceFile(path, 'new'), { message: fail });
    assert.ok(notes.includes('close file'), 'its descriptor is closed');
    assert.ok(!notes.includes('sync folder'));
    assert.deepEqual(await readdir(folder), ['file']);
    assert.equal(await readFile(path, 'utf8'), 'old');
  });
}

test('a link planted under the temporary name is not written through', async (t) => {
  const folder = await temporaryFolder(t);
  const path = join(folder, 'file');
  await writeFile(join(folder, 'victim'), 'precious');
  await symlink('victim', join(folder, `.file.${process.pid}.tmp`));
  await replaceFile(path, 'text');
  assert.equal(await readFile(join(folder, 'victim'), 'utf8'), 'precious');
  assert.equal(await readFile(path, 'utf8'), 'text');
});

test('a temporary name that cannot be removed is told', async (t) => {
  const folder = await temporaryFolder(t);
  await mkdir(join(folder, `.file.${process.pid}.tmp`));
  await assert.rejects(replaceFile(join(folder, 'file'), 'text'), { code: 'EISDIR' });
});

test('a bound is the last number of bytes that is read', async (t) => {
  const path = join(await temporaryFolder(t), 'file');
  await writeFile(path, 'x'.repeat(100));
  assert.equal((await readBounded(path, 100)).length, 100);
  await assert.rejects(readBounded(path, 99), { message: /larger than 99 bytes/ });
  await writeFile(path, 'y'.repeat(3 << 20));
  assert.equal((await readBounded(path, 4 << 20)).toString('latin1'), 'y'.repeat(3 << 20));
  await assert.rejects(readTextIfAny(path), { message: /larger than 1048576 bytes/ });
});

test('no more than the bound and one byte is read of an endless file', async (t) => {
  let read = 0;
  const { open: realOpen } = promises;
  promises.open = async (path, flags, mode) => {
    const handle = await realOpen(path, flags, mode);
    const realRead = handle.read.bind(handle) as (
      ...args: unknown[]
    ) => Promise<{ bytesRead: number }>;
    handle.read = (async (...args: unknown[]) => {
      const result = await realRead(...args);
      read += result.bytesRead;
      return result;
    }) as unknown as typeof handle.read;
    return handle;
  };
  t.after(() => Object.assign(promises, { open: realOpen }));
  const path = join(await temporaryFolder(t), 'large');
  await writeFile(path, Buffer.alloc(100_000));
  await assert.rejects(readBounded(path, 10), { message: /larger than 10 bytes/ });
  assert.equal(read, 11);
});

test('a FIFO is refused at once, and a folder too', async (t) => {
  const folder = await temporaryFolder(t);
  const fifo = join(folder, 'fifo');
  execFileSync('mkfifo', [fifo]);
  await assert.rejects(readBounded(fifo, 10), { message: /not a regular file/ });
  await assert.rejects(readBounded(folder, 10), { message: /not a regular file/ });
});

test('only a missing file is none', async (t) => {
  const folder = await temporaryFolder(t);
  assert.equal(await readTextIfAny(join(folder, 'none')), undefined);
  assert.equal(await readHeadIfAny(join(folder, 'none'), 10), undefined);
  await symlink('loop', join(folder, 'loop'));
  await assert.rejects(readTextIfAny(join(folder, 'loop')), { code: 'ELOOP' });
  await assert.rejects(readHeadIfAny(join(folder, 'loop'), 10), { code: 'ELOOP' });
  await writeFile(join(folder, 'head'), '0123456789');
  assert.equal(await readHeadIfAny(join(folder, 'head'), 4), '0123');
});

/** Descriptors of this process that name a path. */
async function openOn(path: string): Promise<number> {
  const names = await readdir('/proc/self/fd');
  const links = await Promise.all(
    names.map((name) => promises.readlink(`/proc/self/fd/${name}`).catch(() => '')),
  );
  return links.filter((link) => link === path).length;
}

test('no descriptor stays open', async (t) => {
  const folder = await temporaryFolder(t);
  const path = join(folder, 'file');
  await writeFile(path, 'x');
  await readBounded(path, 10);
  await assert.rejects(readBounded(path, 0));
  await readHeadIfAny(path, 10);
  await syncFolder(folder);
  assert.deepEqual([await openOn(path), await openOn(folder)], [0, 0]);
  const handle = await open(path, constants.O_RDONLY);
  assert.equal(await openOn(path), 1, 'the count sees one that is open');
  await handle.close();
});
