/** Archives and folders that change while they are read. */

import assert from 'node:assert/strict';
import {
  type FileHandle,
  mkdir,
  rename,
  symlink,
  truncate,
  unlink,
  writeFile,
} from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { walkCheckpoint } from '../../src/archive/source.js';
import { FileBytes } from '../../src/archive/tar-bytes.js';
import { inventory, zstdProgram } from './archive-builder.js';
import { temporaryFolder } from './paths.js';
import { rawTar } from './raw-tar.js';

const options = { zstdDecoder: zstdProgram };
const large = Buffer.alloc(4 << 20, 1);

/** Reads all contents. `change` runs before those of each file. */
async function read(
  path: string,
  change: (name: string) => Promise<void>,
): Promise<Record<string, Buffer>> {
  const found: Record<string, Buffer> = {};
  await walkCheckpoint(path, options, async ({ name }, content) => {
    await change(name);
    const chunks: Buffer[] = [];
    for await (const chunk of content) chunks.push(chunk);
    found[name] = Buffer.concat(chunks);
  });
  return found;
}

async function archive(t: TestContext): Promise<string> {
  const path = join(await temporaryFolder(t), 'job.tar');
  await writeFile(
    path,
    rawTar([
      { name: 'a', data: large },
      { name: 'b', data: large },
    ]),
  );
  return path;
}

test('a disk that fails while a slow reader works is an error of the next read', async () => {
  let reads = 0;
  const failing = {
    read: async (buffer: Buffer, _: number, bytesRead: number) => {
      if (++reads === 1) return { buffer, bytesRead };
      await delay(1);
      throw Object.assign(new Error('EIO: i/o error, read'), { code: 'EIO' });
    },
  } as unknown as FileHandle;
  const bytes = 64 << 20;
  const file = new FileBytes('job.tar', failing, bytes, {});
  await assert.rejects(async () => {
    for await (const _ of file.content(bytes)) await delay(50);
  }, /EIO/);
  assert.equal(reads, 2);
});

test('an archive that becomes shorter is damaged, at whatever byte', async (t) => {
  for (const [length, message] of [
    [0, /became shorter/],
    [600, /became shorter/],
    [(4 << 20) + 600, /the end is missing|became shorter/],
    [(8 << 20) + 1024, /the end is missing/],
  ] as const) {
    const path = await archive(t);
    const cut = read(path, async () => truncate(path, length));
    await assert.rejects(cut, { code: 'E_IMAGE_CORRUPT', message }, `${length}`);
  }
});

test('an archive that another replaces is read to its end', async (t) => {
  const path = await archive(t);
  const found = await read(path, async () => {
    await writeFile(`${path}.new`, rawTar([{ name: 'x', data: Buffer.alloc(9 << 20, 2) }]));
    await rename(`${path}.new`, path);
  });
  assert.deepEqual(Object.keys(found), ['a', 'b']);
  assert.ok(found['b']?.equals(large));
});

test('a file that becomes a link while a folder is read is not followed', async (t) => {
  const folder = await temporaryFolder(t);
  const secret = join(await temporaryFolder(t), 'secret');
  await writeFile(secret, 'secret');
  await mkdir(join(folder, 'checkpoint'));
  for (const [name, data] of Object.entries({ 'inventory.img': inventory, x: large, y: 'own' })) {
    await writeFile(join(folder, 'checkpoint', name), data);
  }
  const found = await read(folder, async (name) => {
    if (name !== 'checkpoint/x') return;
    // The file that is open, one that comes later, and the folder that both are in.
    for (const other of ['x', 'y']) {
      await unlink(join(folder, 'checkpoint', other));
      await symlink(secret, join(folder, 'checkpoint', other));
    }
    await rename(join(folder, 'checkpoint'), join(folder, 'moved'));
    await symlink('/etc', join(folder, 'checkpoint'));
  });
  assert.deepEqual(Object.keys(found), ['checkpoint/inventory.img', 'checkpoint/x']);
  assert.ok(found['checkpoint/x']?.equals(large));
});
