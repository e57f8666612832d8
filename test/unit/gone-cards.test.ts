import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gunzipSync, gzipSync } from 'node:zlib';
import { relocate } from '../../src/archive/relocate.js';
import { placeAsIs, placeOnHost } from '../../src/gpu/compare.js';
import { decodeManifest } from '../../src/manifest/codec.js';
import { listed, noCdi, node } from './device-moves.js';
import { hostWith } from './host-builder.js';
import { sampleManifest } from './manifest-sample.js';
import { rawTar } from './raw-tar.js';

const kfdDevice = { major: 234, minor: 0 };
const image = 'checkpoint/tmpfs-dev-38.tar.gz.img';

/** A container with card nodes of both GPUs; its processes could see `seen`. */
function manifestOf(seen: number[]) {
  const manifest = sampleManifest();
  for (const [i, gpu] of manifest.gpus.entries()) Object.assign(gpu, { card_minor: i + 1 });
  for (const process of manifest.processes)
    process.gpus = process.gpus.filter((gpu) => seen.includes(gpu));
  return manifest;
}

const dev = gzipSync(
  rawTar([
    node('./kfd', 234, 0),
    node('./dri/card1', 226, 1),
    node('./dri/card2', 226, 2),
    node('./dri/renderD128', 226, 128),
    node('./dri/renderD129', 226, 129),
  ]),
);
const rule = (minor: number) => ({ allow: true, type: 'c', major: 226, minor, access: 'rwm' });
const specified = (minor: number, path = `/dev/dri/card${minor}`) => ({
  path,
  type: 'c',
  major: 226,
  minor,
});
const spec = (...minors: number[]) => ({
  linux: {
    devices: minors.map((minor) => specified(minor)),
    resources: { devices: minors.map(rule) },
  },
});
const hostPaths = (...minors: number[]) =>
  minors.map((minor) => ({ path: `/dev/dri/card${minor}` }));

async function moved(
  manifest: ReturnType<typeof sampleManifest>,
  host: ReturnType<typeof hostWith>,
) {
  const documents = {
    spec: JSON.stringify(spec(1, 2)),
    config: JSON.stringify({ spec: spec(1, 2), device_host_src: hostPaths(1, 2) }),
  };
  const files = await relocate(
    { manifest, ...documents, tmpfs: new Map([[image, dev]]) },
    placeOnHost(manifest, host),
    host,
    noCdi,
  );
  const text = (name: string) => String(files.get(name));
  return {
    nodes: listed(gunzipSync(files.get(image) ?? '')).filter((line) => line.includes('card')),
    spec: JSON.parse(text('spec.dump')),
    config: JSON.parse(text('config.dump')),
    manifest: decodeManifest(Buffer.from(text('checkpoint/kfd-manifest.json'))),
  };
}

test('a card node goes where the new GPU has none, and then nothing is against a restore', async () => {
  const manifest = manifestOf([0, 1]);
  const host = {
    ...hostWith({ render_minor: 128 }, { render_minor: 129 }),
    kfdDevice,
  };
  const reasons = placeAsIs(manifest, host).mismatches.map(
    ({ code, message }) => `${code} ${message}`,
  );
  assert.deepEqual(reasons, [
    "E_DEVICE_MOVED card node of gpu 0 (renderD128): 226:1 in the archive is another GPU's here, or none's",
    "E_DEVICE_MOVED card node of gpu 1 (renderD129): 226:2 in the archive is another GPU's here, or none's",
  ]);
  const after = await moved(manifest, host);
  assert.deepEqual(after.nodes, []);
  assert.deepEqual(after.spec, spec());
  assert.deepEqual(after.config, { spec: spec(), device_host_src: [] });
  assert.deepEqual(placeAsIs(after.manifest, host).mismatches, []);
  assert.deepEqual(
    after.manifest.gpus.map(({ card_minor }) => card_minor),
    [undefined, undefined],
  );
});

test('the card node of a GPU that no process could see stays with that very GPU, and else goes', async () => {
  const manifest = manifestOf([0]);
  const [first, second] = manifest.gpus;
  assert.ok(first && second);
  const card = (minor: number) => ({ major: 226, minor });
  const bare = hostWith(first, second);
  const same = {
    ...bare,
    kfdDevice,
    gpus: bare.gpus.map((gpu, i) => ({ ...gpu, cardDevice: card(i + 1) })),
  };
  assert.deepEqual(placeOnHost(manifest, same).gone, []);
  assert.deepEqual(placeAsIs(manifest, same).mismatches, []);
  const other = {
    ...same,
    gpus: same.gpus.map((gpu, i) =>
      i === 1 ? { ...gpu, record: { ...gpu.record, gpu_id: 5 } } : gpu,
    ),
  };
  assert.deepEqual(
    placeOnHost(manifest, other).gone.map(({ from, gpu }) => [from.minor, gpu]),
    [[2, 1]],
  );
  const after = await moved(manifest, other);
  assert.deepEqual(after.nodes, ['./dri/card1 226:1']);
  assert.deepEqual(after.spec, spec(1));
  assert.deepEqual(after.config, { spec: spec(1), device_host_src: hostPaths(1) });
});

test('a card node that moves to the number of one that goes keeps that number', async () => {
  const manifest = manifestOf([0]);
  const bare = hostWith({ render_minor: 128 });
  const host = {
    ...bare,
    kfdDevice,
    gpus: bare.gpus.map((gpu) => ({ ...gpu, cardDevice: { major: 226, minor: 2 } })),
  };
  const after = await moved(manifest, host);
  assert.deepEqual(after.nodes, ['./dri/card2 226:2', './dri/card1 226:2']);
  assert.deepEqual(after.spec, spec(2));
  assert.deepEqual(placeAsIs(after.manifest, host).mismatches, []);
});
