/** The driver's build and the GPU's firmware: what is recorded, and what is compared. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { placeAsIs } from '../../src/gpu/compare.js';
import { type Host, hostRecord, readHost } from '../../src/gpu/host.js';
import { pairGpus } from '../../src/gpu/pair.js';
import type { Manifest, ManifestGpu } from '../../src/manifest/schema.js';
import { type Bend, hostWith } from './host-builder.js';
import { sampleManifest } from './manifest-sample.js';
import { bentHost } from './sysfs-tree.js';

type Driver = NonNullable<Manifest['host']['driver']>;

const kfdVersion = '1.17';
const module = 'sys/module/amdgpu';
const node1 = 'sys/class/kfd/kfd/topology/nodes/1/properties';
const dkms = { version: '6.16.6', srcversion: '533BB7E5866E52F63B9ACCB' };

async function recordOf(host: Host) {
  assert.ok(host.kfdDevice !== undefined);
  return hostRecord({ ...host, kfdVersion, kfdDevice: host.kfdDevice });
}

test('the build of the driver is recorded, as far as the kernel tells it', async (t) => {
  const files = {
    [`${module}/version`]: `${dkms.version}\n`,
    [`${module}/srcversion`]: `${dkms.srcversion}\n`,
  };
  const both = await readHost({ root: await bentHost(t, 'two-gpus', files), kfdVersion });
  assert.deepEqual((await recordOf(both)).host.driver, dkms);
  const none = await readHost({ root: await bentHost(t, 'two-gpus', {}), kfdVersion });
  // An empty record: the kernel told nothing. Without a record nothing was read.
  assert.deepEqual((await recordOf(none)).host.driver, {});
  const { driver } = await readHost({ root: await bentHost(t, 'no-kfd', files) });
  assert.equal(driver, undefined);
});

test('firmware versions come from the topology', async (t) => {
  const properties =
    'simd_count 416\ngfx_target_version 90010\ndrm_render_minor 128\nfw_version 78\nsdma_fw_version 8\n';
  const host = await readHost({ root: await bentHost(t, 'two-gpus', { [node1]: properties }) });
  const { fw_version, sdma_fw_version } = host.gpus[0]?.record ?? {};
  assert.deepEqual([fw_version, sdma_fw_version], [78, 8]);
  assert.equal(host.gpus[1]?.record.sdma_fw_version, undefined);
});

test('the driver must be of the same build, where both sides are known', () => {
  const found = (recorded: Driver | undefined, present: Driver | undefined) => {
    const manifest = sampleManifest();
    if (recorded !== undefined) manifest.host.driver = recorded;
    const host = { ...hostWith({ render_minor: 128 }, { render_minor: 129 }), driver: present };
    return placeAsIs(manifest, host).mismatches.map(({ code, message }) => `${code} ${message}`);
  };
  const bound = 'the opaque KFD state is bound to it';
  assert.deepEqual(found(dkms, dkms), []);
  assert.deepEqual(found({}, {}), []);
  // Manifests of earlier releases have no record.
  assert.deepEqual(found(undefined, dkms), []);
  assert.deepEqual(found(dkms, undefined), []);
  assert.deepEqual(found(dkms, { ...dkms, srcversion: '0' }), [
    `E_KERNEL_MISMATCH amdgpu srcversion: recorded as ${dkms.srcversion}, is 0 here; ${bound}`,
  ]);
  // The kernel's own driver has no version, one from DKMS has: they are not the same build.
  assert.deepEqual(found(dkms, {}), [
    `E_KERNEL_MISMATCH amdgpu version: recorded as 6.16.6, is none here; ${bound}`,
    `E_KERNEL_MISMATCH amdgpu srcversion: recorded as ${dkms.srcversion}, is none here; ${bound}`,
  ]);
  assert.deepEqual(found({ srcversion: '1' }, { version: '6.16.6', srcversion: '1' }), [
    `E_KERNEL_MISMATCH amdgpu version: recorded as none, is 6.16.6 here; ${bound}`,
  ]);
});

/** The sample, whose GPUs have this firmware. */
function withFirmware(fw: number, sdma: number): Manifest {
  const manifest = sampleManifest();
  for (const gpu of manifest.gpus) Object.assign(gpu, { fw_version: fw, sdma_fw_version: sdma });
  return manifest;
}

test('firmware may be newer than the recorded one, not older', () => {
  const found = (bend: Bend, manifest = withFirmware(78, 8)) =>
    placeAsIs(
      manifest,
      hostWith({ ...bend, render_minor: 128 }, { ...bend, render_minor: 129 }),
    ).mismatches.map(({ code, gpu, message }) => `${code} ${gpu} ${message}`);
  assert.deepEqual(found({ fw_version: 78, sdma_fw_version: 8 }), []);
  assert.deepEqual(found({ fw_version: 79, sdma_fw_version: 9 }), []);
  assert.deepEqual(found({}), []);
  assert.deepEqual(found({ fw_version: 1, sdma_fw_version: 1 }, sampleManifest()), []);
  assert.deepEqual(found({ fw_version: 77, sdma_fw_version: 7 }), [
    'E_GPU_MISMATCH 0 gpu 0 (renderD128): MEC firmware was 78, is older here: 77',
    'E_GPU_MISMATCH 0 gpu 0 (renderD128): SDMA firmware was 8, is older here: 7',
    'E_GPU_MISMATCH 1 gpu 1 (renderD129): MEC firmware was 78, is older here: 77',
    'E_GPU_MISMATCH 1 gpu 1 (renderD129): SDMA firmware was 8, is older here: 7',
  ]);
});

test('a GPU with the recorded firmware is preferred, but never to the recorded render node', () => {
  const manifest = withFirmware(78, 8);
  const same = { fw_version: 78, sdma_fw_version: 8 };
  const newer = { fw_version: 78, sdma_fw_version: 9 };
  const chosen = (host: Host) =>
    pairGpus(manifest, host).pairs.map(({ present }) => present.record.ordinal);
  assert.deepEqual(chosen(hostWith(newer, same, same)), [1, 2]);
  assert.deepEqual(chosen(hostWith(newer, same, newer)), [0, 1]);
  const [first] = manifest.gpus as [ManifestGpu];
  // An address says little of another host, so firmware counts more.
  const place = { location: first.location, gpu_id: first.gpu_id };
  assert.deepEqual(chosen(hostWith({ ...newer, ...place }, same, same)), [1, 2]);
  assert.deepEqual(chosen(hostWith({ ...newer, render_minor: 128 }, same, same)), [0, 1]);
});
