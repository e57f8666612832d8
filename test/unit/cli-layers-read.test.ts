/** What reads and restores images in layers, and layers that nobody should trust. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { contentsFault } from '../../src/manifest/buffers.js';
import { decodeManifest, encodeManifest } from '../../src/manifest/codec.js';
import { cli } from './cli-context.js';
import { checkpoint, first, second, services } from './drained-archive.js';
import { Layered, type Report } from './layered-image.js';
import { sampleManifest } from './manifest-sample.js';
import { layout } from './oci-image.js';
import { temporaryFolder } from './paths.js';
import { rawTar } from './raw-tar.js';
import { bentHost } from './sysfs-tree.js';

const store = 'amdgpu-pages-0-8000.img';

async function twoImages(t: TestContext): Promise<[Layered, Report]> {
  const work = await Layered.make(t);
  await work.image(await work.archive(await checkpoint(t, first)), 'job:1');
  return [work, await work.image(await work.archive(await checkpoint(t, second)), 'job:2')];
}

const layersOf = (work: Layered, { layers }: Report) =>
  layers.map(({ digest }) => ({ bytes: readFileSync(work.blob(digest)) }));

test('restore gives podman one archive of all layers, and check says which command it is', async (t) => {
  const [work] = await twoImages(t);
  const root = await bentHost(t, 'two-gpus', {});
  const name = work.name('job:2');
  const checked = await cli(['check', '--root', root, name], { native: services });
  assert.equal(checked.code, 0, checked.stderr);
  assert.match(checked.stdout, /would restore here by: kfd-checkpoint restore oci:/);
  const merged = join(await temporaryFolder(t), 'merged.tar');
  const { code, stderr } = await cli(['restore', '--quiet', '--root', root, name, '--keep'], {
    native: services,
    runThrough: async (_, words, descriptor) => {
      assert.deepEqual(words, ['container', 'restore', '--import', '/proc/self/fd/3', '--keep']);
      await writeFile(merged, readFileSync(`/proc/self/fd/${descriptor}`));
      return 0;
    },
  });
  assert.equal(code, 0, stderr);
  const verified = await work.run('verify', '--quiet', merged);
  assert.equal(verified.code, 0, verified.stderr);
});

test('a store that is missing, damaged or another one is found', async (t) => {
  const [work, report] = await twoImages(t);
  const layers = layersOf(work, report);
  const spoiled = layers.map(({ bytes }) => ({ bytes: Buffer.from(bytes) }));
  const inFrame = 20_000;
  spoiled[0]?.bytes.writeUInt8((spoiled[0].bytes[inFrame] ?? 0) ^ 1, inFrame);
  const cases: [typeof layers, RegExp][] = [
    [layers.slice(1), new RegExp(`${store} .* fail`)],
    [layers.slice(2), /refers to frame 0 of amdgpu-pages-0-800[01]\.img: that file is missing/],
    [spoiled, new RegExp(`${store} .* fail`)],
    [[...layers.slice(0, 1), ...layers], new RegExp(`${store} is there twice`)],
  ];
  for (const [image, reason] of cases) {
    const dir = join(await temporaryFolder(t), 'image');
    await layout(dir, [{ layers: image }]);
    const { code, stdout, stderr } = await work.run('verify', '--quiet', `oci:${dir}`);
    assert.equal(code, 5, `${reason}`);
    assert.match(stdout + stderr, reason);
  }
});

test('a layer below the checkpoint may have a store alone', async (t) => {
  const [work, report] = await twoImages(t);
  const checkpointLayer = layersOf(work, report).slice(-1);
  for (const [entry, reason] of [
    [
      { name: 'checkpoint/core-1.img', data: Buffer.from('x') },
      /checkpoint\/core-1\.img is no store/,
    ],
    [
      { name: 'checkpoint/kfd-manifest.json', data: Buffer.from('{}') },
      /kfd-manifest\.json is no store/,
    ],
    [
      { name: 'checkpoint/amdgpu-pages-0-0000.img', data: Buffer.from('x') },
      /0-0000\.img is no store/,
    ],
    [
      { name: 'checkpoint/amdgpu-pages-1-8000.img', data: Buffer.from('x') },
      /1-8000\.img is no store/,
    ],
    [{ name: `checkpoint/${store}`, type: '2' }, /8000\.img is no store/],
  ] as const) {
    const dir = join(await temporaryFolder(t), 'image');
    await layout(dir, [{ layers: [{ bytes: rawTar([entry]) }, ...checkpointLayer] }]);
    const { code, stderr } = await work.run('verify', '--quiet', `oci:${dir}`);
    assert.equal(code, 5, stderr);
    assert.match(stderr, reason);
  }
});

test('stores and the feature for them go together', async (t) => {
  const [work, report] = await twoImages(t);
  const root = await work.unpacked(report);
  const manifest = decodeManifest(readFileSync(`${root}/checkpoint/kfd-manifest.json`));
  const again = (bend: (copy: typeof manifest) => void) => {
    const copy = structuredClone(manifest);
    bend(copy);
    return encodeManifest(copy);
  };
  assert.throws(
    () => again(({ features }) => Object.assign(features, { required: [] })),
    /"stores" and the files do not agree/,
  );
  const without = (copy: typeof manifest) =>
    Object.assign(copy, { files: copy.files.filter(({ name }) => !/-8/.test(name)) });
  assert.throws(() => again(without), /"stores" and the files do not agree/);
});

test('a store has each frame as a buffer of its own, and all of them stored', () => {
  const good = {
    bufferIds: Uint32Array.of(0, 1),
    bufferSizes: Float64Array.of(4096, 1),
    frames: 2,
    zeroFrames: 0,
    references: 0,
    siblings: 0,
  };
  assert.equal(contentsFault(store, [], good), undefined);
  for (const bad of [
    { ...good, frames: 3 },
    { ...good, bufferIds: Uint32Array.of(0, 2) },
    { ...good, bufferIds: Uint32Array.of(1, 0) },
  ]) {
    assert.match(contentsFault(store, [], bad) ?? '', /buffers are not its frames/);
  }
  for (const kind of ['zeroFrames', 'references', 'siblings']) {
    assert.match(contentsFault(store, [], { ...good, [kind]: 1 }) ?? '', /without the contents/);
  }
  // Any other file has the buffers that the manifest says.
  const { buffers } = sampleManifest();
  assert.match(contentsFault('amdgpu-pages-0-0000.img', buffers, good) ?? '', /the manifest says/);
});
