/** A task of containerd that has arrived gets the numbers of this host. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { gunzipSync, gzipSync } from 'node:zlib';
import { fitTask } from '../../src/cli/migrate-fit.js';
import { type RestorabilityOptions, restorabilityOf } from '../../src/cli/restorability.js';
import { decodeManifest } from '../../src/manifest/codec.js';
import { checkpointOfHere } from './archive-builder.js';
import { fakeNative, fakeRun } from './cli-context.js';
import { record } from './containerd-world.js';
import { listed, node } from './device-moves.js';
import { temporaryFolder } from './paths.js';
import { rawTar } from './raw-tar.js';
import { bentHost } from './sysfs-tree.js';

const dev = 'tmpfs-dev-38.tar.gz.img';
const devices = (minor: number) => [
  { path: '/dev/kfd', type: 'c', major: 234, minor: 0 },
  { path: `/dev/dri/renderD${minor}`, type: 'c', major: 226, minor },
];

/** An image of a container with the first GPU, and the document with its record. */
async function arrived(t: TestContext) {
  const folder = await temporaryFolder(t);
  const image = join(folder, 'checkpoint');
  await mkdir(image);
  const files = checkpointOfHere((manifest) => {
    for (const process of manifest.processes) process.gpus = [0];
    manifest.buffers = manifest.buffers.filter(({ gpu }) => gpu === 0);
    manifest.files = manifest.files.slice(0, 2);
  });
  const ours = ['kfd-manifest.json', 'kfd-state-0.img', 'amdgpu-pages-0-0000.img'];
  for (const name of [...ours, 'inventory.img']) {
    await writeFile(join(image, name), files[`checkpoint/${name}`] ?? '');
  }
  const nodes = [node('./kfd', 234, 0), node('./dri/renderD128', 226, 128)];
  await writeFile(join(image, dev), gzipSync(rawTar(nodes)));
  const document = join(folder, 'checkpoint.tar');
  const Spec = { ...record.Spec, linux: { devices: devices(128) } };
  await writeFile(document, JSON.stringify({ ...record, Spec }));
  const root = await bentHost(t, 'two-gpus', {});
  const look = (more: Partial<RestorabilityOptions> = {}) =>
    restorabilityOf(
      image,
      {
        native: fakeNative,
        signal: new AbortController().signal,
        err: () => undefined,
        run: fakeRun({}),
      },
      { root, gpuMap: undefined, ignoreMismatch: undefined, mayChange: true, ...more },
    );
  const specOf = () =>
    (JSON.parse(readFileSync(document, 'utf8')) as { Spec: typeof Spec }).Spec.linux.devices;
  return { image, document, look, specOf };
}

test('nothing changes where all numbers are the same', async (t) => {
  const { image, document, look } = await arrived(t);
  const before = [document, join(image, 'kfd-manifest.json')].map((path) => readFileSync(path));
  const verdict = await look();
  assert.deepEqual(verdict.reasons, []);
  await fitTask(image, document, verdict);
  const after = [document, join(image, 'kfd-manifest.json')].map((path) => readFileSync(path));
  assert.deepEqual(after, before);
});

test('record, nodes and manifest follow to another GPU', async (t) => {
  const { image, document, look, specOf } = await arrived(t);
  const asIs = await look({ gpuMap: 'renderD128=renderD129', mayChange: false });
  assert.deepEqual(
    asIs.reasons.map(({ code }) => code),
    ['E_DEVICE_MOVED'],
  );
  const verdict = await look({ gpuMap: 'renderD128=renderD129' });
  assert.deepEqual(verdict.reasons, []);
  await fitTask(image, document, verdict);
  assert.deepEqual(specOf(), devices(129));
  const nodes = listed(gunzipSync(readFileSync(join(image, dev))));
  assert.ok(nodes.includes('./dri/renderD129 226:129'), nodes.join(', '));
  const manifest = decodeManifest(readFileSync(join(image, 'kfd-manifest.json')));
  assert.equal(manifest.devices.assigned?.[0]?.render_minor, 129);
});
