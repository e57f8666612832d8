/** A restore takes the GPUs of the container's new spec, and the image follows. */

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { mkdir, readdir, realpath, rename, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { gunzipSync, gzipSync } from 'node:zlib';
import { allotted, withOnly } from '../../shim/task/allotted.js';
import { placeAsIs } from '../../src/gpu/compare.js';
import { readHost } from '../../src/gpu/host.js';
import { decodeManifest, encodeManifest } from '../../src/manifest/codec.js';
import { rootsOf } from '../../src/manifest/elsewhere.js';
import { openOwnFolder } from '../../src/os/own-folder.js';
import { bytesField } from '../../src/protobuf.js';
import { encodeResponse } from '../../src/ttrpc/envelope.js';
import { checkpointOfHere } from './archive-builder.js';
import { listed, node } from './device-moves.js';
import { field, id, world } from './intercept-world.js';
import { temporaryFolder } from './paths.js';
import { rawTar } from './raw-tar.js';
import { until } from './shim-host.js';
import { bentHost } from './sysfs-tree.js';

const canMount = process.getuid?.() === 0;
const dev = 'tmpfs-dev-38.tar.gz.img';
const pages = 'amdgpu-pages-0-0000.img';
const devTar = rawTar([
  node('./kfd', 234, 0),
  node('./dri/card0', 226, 0),
  node('./dri/renderD128', 226, 128),
]);
const cards = {
  'sys/devices/pci0000:00/0000:03:00.0/drm/card0/dev': '226:0\n',
  'sys/devices/pci0000:00/0000:43:00.0/drm/card1/dev': '226:1\n',
};

/** An image of a container with the first GPU and its card node, and a bundle whose spec has these render nodes. */
async function restoreOf(t: TestContext, ...minors: number[]) {
  const folder = await temporaryFolder(t);
  const files = checkpointOfHere((manifest) => {
    for (const process of manifest.processes) process.gpus = [0];
    Object.assign(manifest.gpus[0] ?? {}, { card_minor: 0 });
    manifest.buffers = manifest.buffers.filter(({ gpu }) => gpu === 0);
    manifest.files = manifest.files.slice(0, 2);
  });
  const checkpoint = join(folder, 'image');
  const bundle = join(folder, 'bundle');
  for (const one of [checkpoint, bundle]) await mkdir(one);
  for (const name of ['kfd-manifest.json', 'kfd-state-0.img', pages]) {
    await writeFile(join(checkpoint, name), files[`checkpoint/${name}`] ?? '');
  }
  await writeFile(join(checkpoint, dev), gzipSync(devTar));
  const kfd = { path: '/dev/kfd', major: 234, minor: 0 };
  const render = minors.map((minor) => ({ path: `/dev/dri/renderD${minor}`, major: 226, minor }));
  const devices = [kfd, ...render];
  await writeFile(join(bundle, 'config.json'), JSON.stringify({ linux: { devices } }));
  return { folder, checkpoint, create: { id: 'pod/1', bundle, checkpoint } };
}

const nodesIn = (image: string) => listed(gunzipSync(readFileSync(join(image, dev))));
const manifestIn = (image: string) =>
  decodeManifest(readFileSync(join(image, 'kfd-manifest.json')));

test('the image stays as it is on the GPU that it had', async (t) => {
  const { folder, checkpoint, create } = await restoreOf(t, 128);
  const root = await bentHost(t, 'two-gpus', cards);
  const { image, only } = await allotted(create, {}, { isOwn: false, root });
  assert.equal(image, checkpoint);
  assert.deepEqual([...(only?.minors ?? [])], [128]);
  assert.deepEqual((await readdir(folder)).toSorted(), ['bundle', 'image']);
});

test('on another GPU it is a copy with that one, whose contents are the same files', async (t) => {
  const { folder, checkpoint, create } = await restoreOf(t, 129);
  const root = await bentHost(t, 'two-gpus', cards);
  const before = readFileSync(join(checkpoint, 'kfd-manifest.json'));
  const { image, only } = await allotted(create, {}, { isOwn: false, root });
  assert.equal(image, join(folder, '.image.kfd-pod_1'));
  assert.equal(readFileSync(join(create.bundle, 'kfd-shim-image'), 'utf8'), `${image}\n`);
  assert.deepEqual(nodesIn(image), [
    './kfd 234:0',
    './dri/card1 226:1',
    './dri/card0 226:1',
    './dri/renderD129 226:129',
    './dri/renderD128 226:129',
  ]);
  const inodes = await Promise.all([checkpoint, image].map((one) => stat(join(one, pages))));
  assert.equal(inodes[0]?.ino, inodes[1]?.ino);
  assert.deepEqual(readFileSync(join(checkpoint, 'kfd-manifest.json')), before);
  assert.equal(nodesIn(checkpoint)[2], './dri/renderD128 226:128');
  const host = await readHost({ root, kfdVersion: '1.17' });
  const here = placeAsIs(manifestIn(image), host, withOnly({}, only));
  assert.deepEqual(here.mismatches, []);
  assert.equal(here.pairs[0]?.present.record.render_minor, 129);
  // A second one replaces what an interrupted one has left.
  assert.equal((await allotted(create, {}, { isOwn: false, root })).image, image);
});

test('contents in a folder that a command has named are no reason against another GPU', async (t) => {
  const { folder, checkpoint, create } = await restoreOf(t, 129);
  const root = await bentHost(t, 'two-gpus', cards);
  const manifest = manifestIn(checkpoint);
  manifest.features.required.push('detached');
  await writeFile(join(checkpoint, 'kfd-manifest.json'), encodeManifest(manifest));
  const own = join(folder, 'own');
  await mkdir(own, { mode: 0o700 });
  await rename(join(checkpoint, pages), join(own, pages));
  const without = await allotted(create, {}, { isOwn: false, root });
  assert.equal(without.image, checkpoint, 'the pre-flight tells what is missing');
  const asked: (readonly string[])[] = [];
  const find = async (roots: readonly string[]) => {
    asked.push(roots);
    return [await openOwnFolder(await realpath(own))];
  };
  const { image } = await allotted(create, {}, { isOwn: false, root, find });
  assert.equal(image, join(folder, '.image.kfd-pod_1'));
  assert.deepEqual(asked, [rootsOf(manifest)]);
  assert.deepEqual(rootsOf(manifestIn(image)), rootsOf(manifest));
});

test('an image that is a mount has the copy in it, which no other copy has', {
  skip: canMount ? false : 'a mount needs root',
}, async (t) => {
  const { folder, checkpoint, create } = await restoreOf(t, 129);
  const root = await bentHost(t, 'two-gpus', cards);
  execFileSync('mount', ['--bind', checkpoint, checkpoint]);
  try {
    const { image } = await allotted(create, {}, { isOwn: false, root });
    assert.equal(image, join(checkpoint, '.moved-kfd-pod_1'));
    assert.equal(manifestIn(image).devices.assigned?.[0]?.render_minor, 129);
    const { image: other } = await allotted({ ...create, id: 'b' }, {}, { isOwn: false, root });
    assert.deepEqual((await readdir(other)).toSorted(), (await readdir(image)).toSorted());
    assert.ok(!(await readdir(other)).some((name) => name.startsWith('.moved-')));
  } finally {
    execFileSync('umount', [checkpoint]);
  }
  assert.deepEqual((await readdir(folder)).toSorted(), ['bundle', 'image']);
});

test('with the spec of another host, nothing changes: its rules would not let the container use KFD', async (t) => {
  const { checkpoint, create } = await restoreOf(t, 129);
  const kfd = { 'sys/class/kfd/kfd/dev': '511:0\n' };
  const root = await bentHost(t, 'two-gpus', { ...cards, ...kfd });
  assert.equal((await allotted(create, {}, { isOwn: false, root })).image, checkpoint);
});

test('an image of the shim itself is changed', async (t) => {
  const { folder, checkpoint, create } = await restoreOf(t, 129);
  const root = await bentHost(t, 'two-gpus', cards);
  const { image } = await allotted(create, {}, { isOwn: true, root });
  assert.equal(image, checkpoint);
  assert.ok(nodesIn(image).includes('./dri/renderD129 226:129'));
  assert.equal(manifestIn(image).devices.assigned?.[0]?.render_minor, 129);
  assert.deepEqual((await readdir(folder)).toSorted(), ['bundle', 'image']);
});

test('the spec goes before gpu_map; one without a GPU, or with a GPU of no use, is for the pre-flight', async (t) => {
  const root = await bentHost(t, 'two-gpus', cards);
  const map = { gpu_map: { renderD128: 'renderD128' } };
  const mapped = await restoreOf(t, 129);
  assert.notEqual(
    (await allotted(mapped.create, map, { isOwn: false, root })).image,
    mapped.checkpoint,
  );
  // Without other numbers, too: the session would follow the map.
  const usual = await restoreOf(t, 128);
  const away = { gpu_map: { renderD128: 'renderD129' } };
  const { image: kept } = await allotted(usual.create, away, { isOwn: false, root });
  assert.equal(manifestIn(kept).devices.assigned?.[0]?.render_minor, 128);
  const none = await restoreOf(t);
  assert.deepEqual(await allotted(none.create, map, { isOwn: false, root }), {
    image: none.checkpoint,
    only: undefined,
  });
  const foreign = await restoreOf(t, 140);
  const { image, only } = await allotted(foreign.create, {}, { isOwn: false, root });
  assert.equal(image, foreign.checkpoint);
  const host = await readHost({ root, kfdVersion: '1.17' });
  assert.match(
    placeAsIs(manifestIn(image), host, withOnly({}, only)).mismatches[0]?.message ?? '',
    /^gpu 0 \(renderD128\): no GPU is left for it, of 0 that the container's spec names; /,
  );
});

test('an image whose node is nowhere is refused, and no copy stays', async (t) => {
  const { folder, checkpoint, create } = await restoreOf(t, 129);
  await writeFile(join(checkpoint, dev), gzipSync(rawTar([node('./kfd', 234, 0)])));
  const root = await bentHost(t, 'two-gpus', cards);
  await assert.rejects(allotted(create, {}, { isOwn: false, root }), {
    code: 'E_UNSUPPORTED_STATE',
  });
  assert.deepEqual((await readdir(folder)).toSorted(), ['bundle', 'image']);
  await writeFile(join(checkpoint, 'kfd-manifest.json'), 'x');
  await assert.rejects(allotted(create, {}, { isOwn: false, root }), { code: 'E_IMAGE_CORRUPT' });
});

test('the shim restores from the copy, and removes it after a restore, a failure, or no start', async (t) => {
  let fails = '';
  let copy = '';
  const one = await world(t, {
    spec: { linux: { devices: [{ path: '/dev/kfd' }] } },
    answering: ({ method }) => ({ code: method === fails ? 2 : 0 }),
    help: ([name]) =>
      name === 'preflight'
        ? encodeResponse({ code: 0, message: '', payload: Buffer.from(copy) })
        : encodeResponse({ code: 2, message: 'no', payload: Buffer.alloc(0) }),
  });
  copy = join(one.folder, '.image.kfd-one');
  const image = join(one.folder, 'image');
  await mkdir(image);
  const gone = () => until('the end of the copy', () => !existsSync(copy));
  const create = async () => {
    await mkdir(copy);
    return one.call('Create', id, bytesField(2, one.bundle), bytesField(8, image));
  };
  for (const [failing, method] of [
    ['', 'Start'],
    ['Start', 'Start'],
    ['', 'Delete'],
    ['Create', undefined],
  ] as const) {
    fails = failing;
    await create();
    const sent = one.seen.findLast((call) => call.method === 'Create')?.payload;
    assert.equal(sent && field(sent, 8), copy);
    if (method !== undefined) assert.ok(existsSync(copy), method);
    if (method !== undefined) await one.call(method, id);
    await gone();
    assert.ok(existsSync(image));
  }
  assert.deepEqual(one.asked.filter(([name]) => name === 'preflight').at(-1), [
    'preflight',
    'move',
  ]);
  const own = join(one.folder, 'ctrd-checkpoint7');
  await one.call('Create', id, bytesField(2, one.bundle), bytesField(8, own));
  assert.deepEqual(one.asked.at(-1), ['preflight', 'move-own']);
});
