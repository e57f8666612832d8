/** `kfd-checkpoint image`: layers that stay, and what reads them. */

import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { test } from 'node:test';
import { decodeManifest } from '../../src/manifest/codec.js';
import { checkpoint, first, frame, names, second } from './drained-archive.js';
import { assertGolden } from './golden.js';
import { Layered } from './layered-image.js';

const stores = (layers: readonly { readonly digest: string }[]) =>
  layers.slice(0, -1).map(({ digest }) => digest);
const sizeOfStores = (layers: readonly { readonly bytes: number; readonly new: boolean }[]) =>
  layers.slice(0, -1).reduce((sum, layer) => sum + (layer.new ? layer.bytes : 0), 0);

test('unchanged contents are layers that the layout has, whatever else has changed', async (t) => {
  const work = await Layered.make(t);
  const before = await work.image(await work.archive(await checkpoint(t, first)), 'job:1');
  assert.equal(before.layers.length, 2);
  assert.equal(before.new_bytes, before.bytes);
  assert.ok(sizeOfStores(before.layers) > 3 * frame);
  const files = { ...(await checkpoint(t, first)), 'checkpoint/core-1.img': 'other' };
  const after = await work.image(await work.archive(files), 'job:2');
  assert.deepEqual(stores(after.layers), stores(before.layers));
  assert.deepEqual(
    after.layers.map((layer) => layer.new),
    [false, true],
  );
  assert.ok(after.new_bytes < frame / 8, `${after.new_bytes} bytes are new`);
  assert.notEqual(after.layers.at(-1)?.digest, before.layers.at(-1)?.digest);
});

test('equal contents are equal layers, also in a layout that knows nothing of the other', async (t) => {
  const [here, there] = [await Layered.make(t), await Layered.make(t)];
  const one = await here.image(await here.archive(await checkpoint(t, first)), 'job:1');
  const other = await there.image(await there.archive(await checkpoint(t, first)), 'job:7');
  assert.deepEqual(stores(other.layers), stores(one.layers));
});

test('a changed frame is a new layer of its size, and the others stay', async (t) => {
  const work = await Layered.make(t);
  const before = await work.image(await work.archive(await checkpoint(t, first)), 'job:1');
  const after = await work.image(await work.archive(await checkpoint(t, second)), 'job:2');
  assert.deepEqual(stores(after.layers).slice(0, 1), stores(before.layers));
  assert.equal(after.layers.length, 3);
  const added = sizeOfStores(after.layers);
  assert.ok(added > frame && added < frame + 16384, `${added} bytes for one frame`);
  // And back: nothing is new, and what is not needed is not named.
  const again = await work.image(await work.archive(await checkpoint(t, first)), 'job:3');
  assert.deepEqual(stores(again.layers), stores(before.layers));
  for (const tag of ['job:1', 'job:2', 'job:3']) {
    const { code, stderr } = await work.run('verify', '--quiet', work.name(tag));
    assert.equal(code, 0, stderr);
  }
});

test('all layers over each other are a checkpoint, as an engine mounts them', async (t) => {
  const work = await Layered.make(t);
  await work.image(await work.archive(await checkpoint(t, first)), 'job:1');
  const report = await work.image(await work.archive(await checkpoint(t, second)), 'job:2');
  const root = await work.unpacked(report);
  const verified = await work.run('verify', '--quiet', '--format', 'json', root);
  assert.equal(verified.code, 0, verified.stderr);
  const { features, files } = decodeManifest(readFileSync(`${root}/checkpoint/kfd-manifest.json`));
  assert.deepEqual(features.required, ['stores']);
  assert.deepEqual(
    files.map(({ name }) => name).filter((name) => name.startsWith('amdgpu')),
    [...names, 'amdgpu-pages-0-8000.img', 'amdgpu-pages-0-8001.img'],
  );
});

test('an image of an image has the same layers, and so has one of a mounted one', async (t) => {
  const work = await Layered.make(t);
  await work.image(await work.archive(await checkpoint(t, first)), 'job:1');
  const report = await work.image(await work.archive(await checkpoint(t, second)), 'job:2');
  for (const from of [work.name('job:2'), await work.unpacked(report)]) {
    const copy = await work.image(from, 'copy:1');
    assert.deepEqual(stores(copy.layers), stores(report.layers), from);
    assert.equal((await work.run('verify', '--quiet', work.name('copy:1'))).code, 0);
  }
  const elsewhere = await Layered.make(t);
  const alone = await elsewhere.image(work.name('job:2'), 'job:2');
  assert.equal(alone.layers.length, 2, 'contents of two stores are one store in a new layout');
  assert.equal((await elsewhere.run('verify', '--quiet', elsewhere.name('job:2'))).code, 0);
});

test('the manifest has what podman asks for, what registries show, and what the source had', async (t) => {
  const work = await Layered.make(t);
  const config = JSON.stringify({ name: 'job', rootfsImageName: 'base:1', runtime: 'crun' });
  const files = { ...(await checkpoint(t, first)), 'config.dump': config };
  const report = await work.image(await work.archive(files), 'job:1');
  const { annotations, layers, config: described } = await work.document(report.digest);
  const podman = 'io.podman.annotations.checkpoint.';
  assert.equal(annotations[`${podman}runtime.name`], 'crun');
  assert.equal(annotations[`${podman}name`], 'job');
  assert.equal(annotations['org.criu.checkpoint.gpu.vendor'], 'amd');
  const { rootfs, architecture } = await work.document(described.digest);
  assert.deepEqual(
    rootfs.diff_ids,
    layers.map(({ digest }: { digest: string }) => digest),
  );
  assert.match(architecture, /^(amd|arm)64$/);
  const copy = await work.image(work.name('job:1'), 'copy:1');
  assert.deepEqual((await work.document(copy.digest)).annotations, annotations);
});

test('a tag goes to the new image, and blobs that nobody names any more go', async (t) => {
  const work = await Layered.make(t);
  const kept = await work.image(await work.archive(await checkpoint(t, first)), 'kept:1');
  const before = await work.image(await work.archive(await checkpoint(t, second)), 'job:1');
  const after = await work.image(await work.archive(await checkpoint(t, first)), 'job:1');
  for (const { digest } of [...kept.layers, ...after.layers, kept, after]) {
    assert.ok(existsSync(work.blob(digest)), digest);
  }
  for (const { digest } of [...before.layers.slice(1), before]) {
    assert.ok(!existsSync(work.blob(digest)), digest);
  }
  assert.deepEqual(readdirSync(work.dir).sort(), ['blobs', 'index.json', 'oci-layout']);
});

test('what cannot be an image is refused, and leaves nothing', async (t) => {
  const work = await Layered.make(t);
  const archive = await work.archive(await checkpoint(t, first));
  for (const name of ['job:1', `oci:${work.dir}`, `oci:${work.dir}:`, `oci:${work.dir}:a b`]) {
    const { code, stderr } = await work.run('image', archive, name);
    assert.equal(code, 2, name);
    assert.match(stderr, /not the name of an image in a layout/, name);
  }
  const { code, stderr } = await work.run('image', archive, `oci:${import.meta.dirname}:job:1`);
  assert.equal(code, 2);
  assert.match(stderr, /is a folder with other files/);
  assert.ok(!existsSync(work.dir));
  const damaged = await checkpoint(t, first);
  const pages = damaged[`checkpoint/${names[0]}`] as Buffer;
  pages.writeUInt8((pages[10_000] ?? 0) ^ 1, 10_000);
  const refused = await work.run('image', await work.archive(damaged), work.name('job:1'));
  assert.equal(refused.code, 5, refused.stderr);
  assert.deepEqual(readdirSync(`${work.dir}/blobs/sha256`), []);
});

test('the report is the documented one', async (t) => {
  const work = await Layered.make(t);
  const archive = await work.archive(await checkpoint(t, first));
  const { stdout } = await work.run('image', '--format', 'json', archive, work.name('job:1'));
  const steady = stdout
    .replace(/sha256:[0-9a-f]{64}/g, 'sha256:DIGEST')
    .replace(/(bytes": )\d+/g, (_, head: string) => `${head}1`);
  assertGolden(steady, 'cli-json/image.json', { FOLDER: dirname(work.dir) });
});
