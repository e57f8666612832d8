/** What is read of a checkpoint, file by file: bounds, heads that are refused, sizes, what is missing. */

import assert from 'node:assert/strict';
import { truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { readComplete } from '../../src/archive/completeness.js';
import { collect, collectState, maxJsonBytes, readContents } from '../../src/archive/contents.js';
import { manifestLimits } from '../../src/manifest/schema.js';
import {
  archive,
  type Files,
  gpuCheckpoint,
  inventory,
  plainCheckpoint,
  tarOf,
  zstdProgram,
} from './archive-builder.js';
import { temporaryFolder } from './paths.js';
import { rawTar } from './raw-tar.js';

const options = { zstdDecoder: zstdProgram };
const bytes = Buffer.from(Array.from({ length: 300 }, (_, i) => (7 * i) & 0xff));

/** `bytes` in pieces that end at the given places; `read` counts the pieces that were asked for. */
function pieces(...ends: readonly number[]) {
  const all = [0, ...ends].map((at, i) => bytes.subarray(at, ends[i] ?? bytes.length));
  const source = { all, read: 0 };
  const content = (async function* () {
    for (const piece of all) {
      source.read += 1;
      yield piece;
    }
  })();
  return { source, content };
}

const cuts = [
  [],
  [1],
  [128],
  [127, 128],
  [129],
  [127, 128, 129],
  [50, 100, 200],
  [299],
  [128, 128],
];
const place = { path: 'x', offset: 0, size: 300 };

test('the bytes of an entry are those of its pieces, and its head is seen once', async () => {
  for (const ends of cuts) {
    const heads: Buffer[] = [];
    const see = (head: Buffer) => heads.push(Buffer.from(head)) > 0;
    const entry = { name: 'x', size: 300 };
    const taken = await collectState(entry, pieces(...ends).content, 300, see);
    assert.ok(taken?.equals(bytes), ends.join());
    assert.deepEqual(heads, [bytes.subarray(0, 128)], ends.join());
    assert.ok((await collect(entry, pieces(...ends).content, 300)).equals(bytes), ends.join());
  }
});

test('a file without bytes behind its head is not asked about', async () => {
  for (const size of [0, 1, 127, 128]) {
    const content = (async function* () {
      yield bytes.subarray(0, size);
    })();
    const never = () => assert.fail('asked');
    const taken = await collectState({ name: 'x', size }, content, 300, never);
    assert.ok(taken?.equals(bytes.subarray(0, size)), `${size}`);
  }
});

test('of a refused file no more is read, but for the stream of a compressed archive', async () => {
  let asked = 0;
  const refuse = () => {
    asked += 1;
    return false;
  };
  for (const entry of [
    { name: 'x', size: 300, place },
    { name: 'x', size: 300 },
  ]) {
    asked = 0;
    const { source, content } = pieces(64, 129, 200, 250);
    assert.equal(await collectState(entry, content, 300, refuse), undefined);
    assert.equal(asked, 1);
    assert.equal(source.read, entry.place === undefined ? source.all.length : 3);
  }
});

test('an entry beyond its bound is refused unread; one that grows is refused', async () => {
  const { source, content } = pieces();
  const large = { code: 'E_IMAGE_CORRUPT', message: 'x: larger than 299 bytes' };
  await assert.rejects(collect({ name: 'x', size: 300 }, content, 299), large);
  assert.equal(source.read, 0);
  const grown = { code: 'E_IMAGE_CORRUPT', message: 'x: became larger while it was read' };
  for (const ends of cuts) {
    for (const size of [100, 128, 299]) {
      const entry = { name: 'x', size };
      await assert.rejects(collect(entry, pieces(...ends).content, 300), grown, `${size} ${ends}`);
    }
  }
});

test('an inventory is what makes a checkpoint: its first four bytes', async (t) => {
  const read = async (image: Buffer | undefined) => {
    const path = await archive(t, {
      ...(image && { 'checkpoint/inventory.img': image }),
      'config.dump': '{}',
    });
    return readContents(path, options);
  };
  assert.equal((await read(inventory.subarray(0, 4))).sizes.total, 6);
  for (const image of [undefined, Buffer.of(), inventory.subarray(0, 3), Buffer.alloc(8, 1)]) {
    await assert.rejects(read(image), {
      code: 'E_IMAGE_CORRUPT',
      message: /: not a checkpoint: no CRIU checkpoint\/inventory\.img$/,
      hint: /^name an archive written by "podman container checkpoint --export"/,
    });
  }
  await assert.rejects(read(Buffer.concat([inventory, Buffer.alloc(1 << 20)])), {
    message: /^checkpoint\/inventory\.img: larger than 1048576 bytes$/,
  });
});

test('small files are read up to their bounds, and others are counted by name', async (t) => {
  const full = `{}${' '.repeat(maxJsonBytes - 2)}`;
  for (const name of ['config.dump', 'spec.dump']) {
    const sound = await archive(t, { ...plainCheckpoint(), [name]: full });
    const { documents, manifest } = await readContents(sound, options);
    assert.equal(documents[name === 'config.dump' ? 'config' : 'spec'], full);
    assert.equal(manifest, undefined);
    const large = await archive(t, { ...plainCheckpoint(), [name]: `${full} ` });
    await assert.rejects(readContents(large, options), {
      message: `${name}: larger than 4194304 bytes`,
    });
  }
  const huge = await archive(t, plainCheckpoint());
  const manifest = { name: 'checkpoint/kfd-manifest.json', size: manifestLimits.fileBytes + 1 };
  await writeFile(huge, rawTar([manifest]).subarray(0, 512));
  await truncate(huge, 512 + manifest.size + 511 + 1024);
  await assert.rejects(readContents(huge, options), {
    message: 'checkpoint/kfd-manifest.json: larger than 67108864 bytes',
  });
});

test('sizes are sums by kind, of files in the image directory alone', async (t) => {
  const sample = gpuCheckpoint().files;
  const others = {
    'checkpoint/pages-2.img': Buffer.alloc(5),
    'checkpoint/pages-2.img.old': Buffer.alloc(7),
    'checkpoint/sub/pages-1.img': Buffer.alloc(11),
    'checkpoint/amdgpu-pages-00-0000.img': Buffer.alloc(13),
    'amdgpu-pages-0-0002.img': Buffer.alloc(17),
    'elsewhere/kfd-state-1.img': Buffer.alloc(19),
    'sub/rootfs-diff.tar': Buffer.alloc(23),
  };
  const files: Files = { ...sample, ...others };
  const { sizes, imageFiles } = await readContents(await archive(t, files), options);
  const total = Object.values(files).reduce((sum, one) => sum + Buffer.byteLength(one), 0);
  assert.deepEqual(sizes, { total, memoryPages: 8192 + 5, gpuPages: 38, rootfsDiff: 1024 });
  assert.deepEqual(Object.fromEntries(imageFiles), {
    'amdgpu-pages-0-0000.img': 19,
    'amdgpu-pages-0-0001.img': 19,
    'amdgpu-pages-00-0000.img': 13,
    'kfd-state-0.img': 5,
  });
});

test('what is missing, cut or in the wrong place is told by name, all of it', async (t) => {
  const problems = async (files: Files) =>
    (await readComplete(await archive(t, files), options)).problems;
  const { files } = gpuCheckpoint();
  assert.deepEqual(await problems(files), []);
  assert.deepEqual(await problems(plainCheckpoint()), []);
  const hint = 'use another copy of the archive, or take another checkpoint';
  const { 'checkpoint/amdgpu-pages-0-0000.img': _, ...damaged } = files;
  Object.assign(damaged, {
    'checkpoint/kfd-state-0.img': 'STALE',
    'checkpoint/amdgpu-pages-0-0001.img': 'PAGES',
  });
  assert.deepEqual(await problems(damaged), [
    { code: 'E_IMAGE_CORRUPT', message: 'kfd-state-0.img: does not match its digest', hint },
    { code: 'E_IMAGE_MISSING', message: 'amdgpu-pages-0-0000.img: not in the image', hint },
    {
      code: 'E_IMAGE_CORRUPT',
      message: 'amdgpu-pages-0-0001.img: is 5 bytes, was 19 when sealed',
      hint,
    },
  ]);
  const path = join(await temporaryFolder(t), 'c.tar');
  const wrong = [{ name: 'checkpoint/core-1.img', type: 'symlink', linkname: 'x' } as const];
  const { 'checkpoint/kfd-manifest.json': __, ...lost } = files;
  const misplaced = {
    code: 'E_IMAGE_CORRUPT',
    message:
      'checkpoint/core-1.img: a link, folder or special file where a file of the checkpoint belongs',
    hint: 'do not restore it: no checkpoint has such an entry',
  };
  const unsealed = {
    code: 'E_IMAGE_UNSEALED',
    message: `${path}: its GPU state was never sealed`,
    hint: 'the checkpoint did not finish; take another one',
  };
  for (const [content, expected] of [
    [files, [misplaced]],
    [lost, [misplaced, unsealed]],
    [plainCheckpoint(), [misplaced]],
  ] as const) {
    const entries = Object.entries(content).map(([name, data]) => ({ name, data }));
    await writeFile(path, await tarOf([...entries, ...wrong]));
    assert.deepEqual((await readComplete(path, options)).problems, expected);
  }
});

test('state files are digested, and all others are for who asks', async (t) => {
  const { files } = gpuCheckpoint();
  const path = await archive(t, {
    ...files,
    'checkpoint/render-state-7.img': 'RENDER',
    'elsewhere/kfd-state-0.img': 'STATE',
  });
  const seen: string[] = [];
  await readComplete(path, options, async ({ name }) => void seen.push(name));
  assert.deepEqual(seen.sort(), [
    'checkpoint/amdgpu-pages-0-0000.img',
    'checkpoint/amdgpu-pages-0-0001.img',
    'checkpoint/pages-1.img',
    'elsewhere/kfd-state-0.img',
    'rootfs-diff.tar',
  ]);
  const large = { name: 'checkpoint/kfd-state-0.img', size: manifestLimits.stateBytes + 1 };
  await writeFile(path, rawTar([large]).subarray(0, 512));
  await truncate(path, 512 + large.size + 511 + 1024);
  await assert.rejects(readComplete(path, options), {
    code: 'E_IMAGE_CORRUPT',
    message: 'checkpoint/kfd-state-0.img: larger than 1073741824 bytes',
  });
});
