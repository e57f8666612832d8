/** Unpacked checkpoints: which folders are one, what of them is read, what is misplaced. */

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdir, readdir, readlink, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { walkCheckpoint } from '../../src/archive/source.js';
import { Folder } from '../../src/os/folder.js';
import { type Files, unpackTo, zstdProgram } from './archive-builder.js';
import { temporaryFolder } from './paths.js';

const options = { zstdDecoder: zstdProgram };

async function walked(path: string) {
  const found: Record<string, string> = {};
  const places: unknown[] = [];
  const result = await walkCheckpoint(path, options, async ({ name, size, place }, content) => {
    const chunks: Buffer[] = [];
    for await (const chunk of content) chunks.push(chunk);
    found[name] = Buffer.concat(chunks).toString();
    assert.equal(found[name].length, size);
    places.push(place);
  });
  return { ...result, found, places };
}

async function unpacked(t: TestContext, files: Files): Promise<string> {
  const folder = await temporaryFolder(t);
  await unpackTo(folder, files);
  return folder;
}

test('of a bundle the image and three files beside it are read, each where it lies', async (t) => {
  const files = {
    'checkpoint/inventory.img': 'i',
    'checkpoint/core-1.img': '',
    'config.dump': '{}',
    'rootfs-diff.tar': 'diff',
    'spec.dump': '{"a":1}',
  };
  const others = { 'ctr.log': 'x', 'inventory.txt': 'x', 'checkpoint/folder/pages-1.img': 'x' };
  const folder = await unpacked(t, { ...files, ...others });
  const { kind, compression, found, places, misplaced } = await walked(folder);
  assert.deepEqual([kind, compression, misplaced], ['bundle', undefined, []]);
  assert.deepEqual(found, files);
  const names = ['config.dump', 'spec.dump', 'rootfs-diff.tar', ...Object.keys(files).slice(0, 2)];
  const order = [...names.slice(0, 3), 'checkpoint/core-1.img', 'checkpoint/inventory.img'];
  assert.deepEqual(
    places,
    order.map((name) => ({
      path: join(folder, name),
      offset: 0,
      size: files[name as keyof typeof files].length,
    })),
  );
  const image = await walked(join(folder, 'checkpoint'));
  assert.deepEqual([image.kind, image.compression], ['image', undefined]);
  assert.deepEqual(image.found, { 'checkpoint/core-1.img': '', 'checkpoint/inventory.img': 'i' });
});

test('an image directory is known by any file that only it has, and before a bundle', async (t) => {
  for (const name of [
    'inventory.img',
    'kfd-manifest.json',
    'kfd-state-0.img',
    'amdgpu-pages-0-0000.img',
  ]) {
    const folder = await unpacked(t, { [name]: 'x', 'checkpoint/inventory.img': 'x' });
    const { kind, found } = await walked(folder);
    assert.equal(kind, 'image', name);
    assert.deepEqual(found, { [`checkpoint/${name}`]: 'x' });
  }
});

test('what is neither is refused, and so is a folder of another kind in its place', async (t) => {
  const none = (path: string) => ({
    code: 'E_IMAGE_CORRUPT',
    message: `${path}: neither an image directory nor a bundle`,
    hint: /^name a directory with inventory\.img in it/,
  });
  const other = await unpacked(t, { 'config.dump': '{}', 'core-1.img': 'x' });
  await assert.rejects(walked(other), none(other));
  const file = await unpacked(t, { checkpoint: 'x' });
  await assert.rejects(walked(file), none(file));
  const link = await temporaryFolder(t);
  await symlink(await unpacked(t, { 'inventory.img': 'x' }), join(link, 'checkpoint'));
  await assert.rejects(walked(link), none(link));
  const fifo = join(link, 'fifo');
  execFileSync('mkfifo', [fifo]);
  await assert.rejects(walked(fifo), {
    code: 'E_IMAGE_CORRUPT',
    message: `${fifo}: neither a file nor a directory`,
  });
  for (const gone of [join(link, 'gone'), join(fifo, 'below')]) {
    await assert.rejects(walked(gone), {
      code: 'E_NOT_FOUND',
      message: `${gone}: no such file or directory`,
    });
  }
  await symlink('loop', join(link, 'loop'));
  await assert.rejects(walked(join(link, 'loop')), { code: 'ELOOP' });
});

test('links, folders and special files where files of a checkpoint belong are named', async (t) => {
  const folder = await unpacked(t, { 'checkpoint/inventory.img': 'x' });
  const at = (name: string) => join(folder, name);
  await symlink('x', at('config.dump'));
  await symlink('x', at('rootfs-diff.tar'));
  await symlink('x', at('elsewhere'));
  await symlink('x', at('checkpoint/parent'));
  await symlink('x', at('checkpoint/core-1.img'));
  await mkdir(at('checkpoint/kfd-state-0.img'));
  await mkdir(at('checkpoint/folder'));
  await mkdir(at('spec.dump'));
  execFileSync('mkfifo', [at('checkpoint/fifo')]);
  const { misplaced, found } = await walked(folder);
  assert.deepEqual(found, { 'checkpoint/inventory.img': 'x' });
  assert.deepEqual(misplaced, [
    'config.dump',
    'spec.dump',
    'checkpoint/core-1.img',
    'checkpoint/fifo',
    'checkpoint/kfd-state-0.img',
  ]);
  for (let i = 10; i < 40; i++) await symlink('x', at(`checkpoint/a-${i}`));
  const many = (await walked(folder)).misplaced;
  assert.deepEqual([many.length, many.at(-1)], [20, 'checkpoint/a-27']);
});

test('65,536 names are in a folder of a checkpoint at most', async (t) => {
  const folder = await unpacked(t, { 'checkpoint/inventory.img': 'x' });
  let names: string[] = [];
  const { names: real } = Folder.prototype;
  Folder.prototype.names = async function () {
    const here = await real.call(this);
    return here.includes('inventory.img') ? names : here;
  };
  t.after(() => Object.assign(Folder.prototype, { names: real }));
  const kind = Folder.prototype.kindOf;
  Folder.prototype.kindOf = async function (name) {
    return name.startsWith('f-') ? 'folder' : kind.call(this, name);
  };
  t.after(() => Object.assign(Folder.prototype, { kindOf: kind }));
  names = ['inventory.img', ...Array.from({ length: 65_535 }, (_, i) => `f-${i}`)];
  assert.deepEqual((await walked(folder)).found, { 'checkpoint/inventory.img': 'x' });
  names.push('f-x');
  await assert.rejects(walked(folder), {
    code: 'E_IMAGE_CORRUPT',
    message: `${join(folder, 'checkpoint')}: more files than any checkpoint has`,
  });
});

test('no descriptor stays open, neither after a walk nor after one that a visitor ended', async (t) => {
  const folder = await unpacked(t, { 'checkpoint/inventory.img': 'x', 'config.dump': '{}' });
  const open = async () => {
    const all = await readdir('/proc/self/fd');
    const links = await Promise.all(
      all.map((fd) => readlink(`/proc/self/fd/${fd}`).catch(() => '')),
    );
    return links.filter((link) => link.startsWith(folder));
  };
  await walked(folder);
  await walked(join(folder, 'checkpoint'));
  assert.deepEqual(await open(), []);
  const fail = new Error('enough');
  let seen: string[] = [];
  const visit = async ({ name }: { name: string }) => {
    if (name !== 'checkpoint/inventory.img') return;
    seen = await open();
    throw fail;
  };
  await assert.rejects(walkCheckpoint(folder, options, visit), fail);
  assert.equal(seen.length, 3, 'the bundle, its image, the file');
  assert.deepEqual(await open(), []);
  await writeFile(join(folder, 'plain'), 'no archive');
  await assert.rejects(walked(join(folder, 'plain')), /not a tar archive/);
  assert.deepEqual(await open(), []);
});
