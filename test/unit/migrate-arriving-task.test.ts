/** The archive of a task of containerd: tar takes it apart while it arrives. The streams are those of the addon. */

import assert from 'node:assert/strict';
import { closeSync, openSync, readdirSync, readFileSync, readSync } from 'node:fs';
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { nativeServices } from '../../src/cli/native-services.js';
import { receiveTask } from '../../src/migrate/arriving-task.js';
import { type Places, placesBelow } from '../../src/migrate/places.js';
import { run } from '../../src/os/exec.js';
import { temporaryFolder } from './paths.js';

const id = '1a'.repeat(16);

/** A target that waits for an archive in `store`. */
async function waiting(t: TestContext) {
  const root = await temporaryFolder(t);
  const places = placesBelow(root);
  const store = join(root, 'store', id);
  const link = places.contents(id);
  for (const one of [store, dirname(link)]) await mkdir(one, { recursive: true });
  await symlink(join(store, 'checkpoint.tar'), link);
  return { root, places, store };
}

async function archiveOf(folder: string, ...names: string[]): Promise<string> {
  const from = join(folder, 'from');
  for (const name of ['checkpoint', 'previous']) await mkdir(join(from, name), { recursive: true });
  const memory = 'memory of the container '.repeat(200_000);
  for (const [name, text] of [
    ['checkpoint/pages-1.img', memory],
    ['changes.tar.gz', 'changes'],
    ['record.json', '{}'],
    ['previous/pages-1.img', 'memory of a moment ago'],
    ['other', 'no part of a checkpoint'],
  ] as const) {
    await writeFile(join(from, name), text);
  }
  const archive = join(folder, 'archive.tar');
  assert.equal((await run('tar', ['-C', from, '-cf', archive, ...names]))?.status, 0);
  return archive;
}

const members = ['checkpoint', 'changes.tar.gz', 'record.json'];

/** What is on the wire for a file. */
function wireOf(path: string): Buffer {
  const fd = openSync(path, 'r');
  const job = nativeServices.sendFile(fd);
  closeSync(fd);
  job.end();
  const pieces: Buffer[] = [];
  const room = Buffer.alloc(1 << 16);
  for (let got = readSync(job.pipe.fd, room); got > 0; got = readSync(job.pipe.fd, room))
    pieces.push(Buffer.from(room.subarray(0, got)));
  job.pipe.close();
  return Buffer.concat(pieces);
}

/** Takes a stream; `limit`: another one than the room that there is. */
async function takes(
  places: Places,
  stream: Buffer,
  root: string,
  { limit, isPrevious = false }: { readonly limit?: number; readonly isPrevious?: boolean } = {},
): Promise<void> {
  const path = join(root, 'wire');
  await writeFile(path, stream);
  const fd = openSync(path, 'r');
  try {
    const forward = (_: number, room: number) => nativeServices.forwardFile(fd, limit ?? room);
    await receiveTask(id, places, forward, isPrevious);
  } finally {
    closeSync(fd);
  }
}

test('what a task needs is taken out, and what else is in the archive is not', async (t) => {
  const { root, places, store } = await waiting(t);
  const archive = await archiveOf(root, ...members, 'other');
  await takes(places, wireOf(archive), root);
  assert.deepEqual(readdirSync(store), ['task']);
  assert.deepEqual(readdirSync(join(store, 'task')).sort(), members.toSorted());
  const image = join(store, 'task/checkpoint/pages-1.img');
  assert.deepEqual(readFileSync(image), readFileSync(join(root, 'from/checkpoint/pages-1.img')));
});

test('memory that comes first is beside the image, which refers to it', async (t) => {
  const { root, places, store } = await waiting(t);
  const previous = await archiveOf(root, 'previous');
  await takes(places, wireOf(previous), root, { isPrevious: true });
  assert.deepEqual(readdirSync(store), ['task.part']);
  await symlink('../previous', join(root, 'from/checkpoint/parent'));
  await takes(places, wireOf(await archiveOf(root, ...members)), root);
  assert.deepEqual(readdirSync(store), ['task']);
  const parent = join(store, 'task/checkpoint/parent/pages-1.img');
  assert.equal(readFileSync(parent, 'utf8'), 'memory of a moment ago');
});

test('the folder has no name before all of it is there, and tells why it is not', async (t) => {
  const lacking = /^what arrives cannot be unpacked: tar: record.json: Not found in archive/;
  const cases: [string, (root: string) => Promise<[Buffer, number?]>, RegExp, string][] = [
    [
      'cut',
      async (root) => [wireOf(await archiveOf(root, ...members)).subarray(0, -1)],
      /ends in the middle/,
      'E_IMAGE_CORRUPT',
    ],
    [
      'of another kind',
      async () => [Buffer.from('no stream at all, of any kind')],
      /zstd/,
      'E_IMAGE_CORRUPT',
    ],
    [
      'without its record',
      async (root) => [wireOf(await archiveOf(root, 'checkpoint', 'changes.tar.gz'))],
      lacking,
      'E_IO',
    ],
    [
      'of something else',
      async (root) => [wireOf(join(await archiveOf(root, ...members), '../from/other'))],
      /^what arrives cannot be unpacked: tar: /,
      'E_IO',
    ],
    [
      'too large',
      async (root) => [wireOf(await archiveOf(root, ...members)), 1_000_000],
      /more than there is room for/,
      'E_IO',
    ],
  ];
  for (const [name, make, message, code] of cases) {
    await t.test(name, async (one) => {
      const { root, places, store } = await waiting(one);
      const [stream, limit] = await make(root);
      const options = limit === undefined ? {} : { limit };
      await assert.rejects(takes(places, stream, root, options), { code, message });
      assert.deepEqual(readdirSync(store), ['task.part']);
    });
  }
});

test('where there is no room, the folder is named', async (t) => {
  const { root, places, store } = await waiting(t);
  const archive = await archiveOf(root, ...members);
  const hint = `make room in ${dirname(store)}, or name another folder with --store`;
  await assert.rejects(takes(places, wireOf(archive), root, { limit: 1_000_000 }), {
    code: 'E_IO',
    hint,
  });
});

test('an archive that nobody waits for is refused', async (t) => {
  const root = await temporaryFolder(t);
  await assert.rejects(takes(placesBelow(root), Buffer.alloc(0), root), { code: 'E_NOT_FOUND' });
});
