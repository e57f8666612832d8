import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { placeAsIs } from '../../src/gpu/compare.js';
import { nodesOf, withCards } from '../../src/gpu/container-cards.js';
import { vramNeeded } from '../../src/gpu/fit.js';
import { type Host, hostRecord, readHost } from '../../src/gpu/host.js';
import { gfxName, parseProperties } from '../../src/gpu/properties.js';
import type { Manifest } from '../../src/manifest/schema.js';
import { deviceId } from '../../src/os/device-id.js';
import { sampleManifest } from './manifest-sample.js';
import { fixtures, temporaryFolder } from './paths.js';
import { bentHost } from './sysfs-tree.js';

const kfdVersion = '1.17';
const sysfs = (name: string) => join(fixtures, 'sysfs', name);
const node1 = 'sys/class/kfd/kfd/topology/nodes/1';

async function twoGpus(): Promise<Host> {
  return { ...(await readHost({ root: sysfs('two-gpus'), kfdVersion })), machine: 'x86_64' };
}

const compareHost = (manifest: Manifest, host: Host) => placeAsIs(manifest, host).mismatches;

function codes(manifest: Manifest, host: Host): string[] {
  return compareHost(manifest, host).map((mismatch) => mismatch.code);
}

test('the topology of two GPUs is read as the manifest records it', async () => {
  const host = await twoGpus();
  assert.equal(host.kernelRelease, '6.12.107+deb13-amd64');
  assert.equal(host.hostname, 'target');
  assert.deepEqual(host.kfdDevice, { major: 234, minor: 0 });
  assert.deepEqual(
    host.gpus.map((gpu) => gpu.record),
    sampleManifest().gpus.map((gpu) => ({ ...gpu, fw_version: 78 })),
  );
  assert.deepEqual(host.gpus[1]?.renderDevice, { major: 226, minor: 129 });
  assert.equal(host.gpus[0]?.vramFreeBytes, 68702699520 - 1048576 - 8388608);
  assert.ok(host.kfdDevice !== undefined);
  const record = hostRecord({ ...host, kfdVersion, kfdDevice: host.kfdDevice });
  assert.deepEqual(record.devices, sampleManifest().devices);
});

test('the card node of a GPU is that of the DRM device with its render node', async (t) => {
  const drm = 'sys/devices/pci0000:00/0000:03:00.0/drm';
  const root = await bentHost(t, 'two-gpus', {
    [`${drm}/card2/dev`]: '226:2\n',
    [`${drm}/card2-DP-1/status`]: 'connected\n',
  });
  const host = await readHost({ root });
  const cards = host.gpus.map(({ cardDevice }) => cardDevice);
  assert.deepEqual(cards, [{ major: 226, minor: 2 }, undefined]);
  const minors = (nodes: number[]) =>
    withCards(host, new Set(nodes)).map(({ card_minor }) => card_minor);
  assert.deepEqual(minors([deviceId({ major: 226, minor: 2 })]), [2, undefined]);
  assert.deepEqual(minors([deviceId({ major: 226, minor: 1 })]), [undefined, undefined]);
});

test("a container's nodes are read by number, and its links are not followed", async (t) => {
  const proc = await temporaryFolder(t);
  const dri = (pid: string) => join(proc, pid, 'root/dev/dri');
  await mkdir(dri('1'), { recursive: true });
  await writeFile(join(dri('1'), 'by-name'), '');
  execFileSync('mknod', [join(dri('1'), 'any'), 'c', '226', '5']);
  await mkdir(join(proc, '2/root/dev'), { recursive: true });
  await symlink(dri('1'), dri('2'));
  assert.deepEqual([...nodesOf(1, proc)], [deviceId({ major: 226, minor: 5 })]);
  assert.deepEqual([...nodesOf(2, proc)], []);
  assert.deepEqual([...nodesOf(3, proc)], []);
});

test('a CPU-only KFD and a host without KFD have no GPUs', async () => {
  const cpuOnly = await readHost({ root: sysfs('cpu-only') });
  assert.deepEqual(cpuOnly.gpus, []);
  assert.ok(cpuOnly.kfdDevice);
  const none = await readHost({ root: sysfs('no-kfd') });
  assert.equal(none.kfdDevice, undefined);
  assert.deepEqual(none.gpus, []);
});

test('the major of kfd is found without its class device', async (t) => {
  const root = await bentHost(t, 'one-gpu', { 'sys/class/kfd/kfd/dev': null });
  assert.deepEqual((await readHost({ root })).kfdDevice, { major: 234, minor: 0 });
});

test('attributes that are missing have documented stand-ins', async (t) => {
  const pci = 'sys/devices/pci0000:00/0000:03:00.0';
  const root = await bentHost(t, 'one-gpu', {
    [`${pci}/mem_info_vram_total`]: null,
    [`${pci}/mem_info_vram_used`]: null,
    [`${pci}/drm/renderD128/device`]: null,
    [`${node1}/properties`]:
      'gfx_target_version 90010\nlocation_id 17163\ndomain 1\ndrm_render_minor 128\n',
  });
  const gpu = (await readHost({ root })).gpus[0];
  assert.equal(gpu?.record.num_xcc, 1);
  assert.equal(gpu?.record.vram_bytes, 68702699520);
  assert.equal(gpu?.vramFreeBytes, undefined);
  assert.equal(gpu?.record.location, '0001:43:01.3');
});

test('garbage in sysfs does not become a number', () => {
  const properties = parseProperties(
    'a 1\nb -1\nc 1e3\nd 99999999999999999999\ne 0x10\n\nf 2 3\ng 4',
  );
  assert.deepEqual(
    [...properties],
    [
      ['a', 1],
      ['g', 4],
    ],
  );
});

test('gfx names are those of LLVM', () => {
  assert.deepEqual([90010, 90006, 90402, 110001, 120000].map(gfxName), [
    'gfx90a',
    'gfx906',
    'gfx942',
    'gfx1101',
    'gfx1200',
  ]);
});

test('the source host itself fits', async () => {
  assert.deepEqual(compareHost(sampleManifest(), await twoGpus()), []);
});

test('a GPU with another gpu_id at the same node fits', async (t) => {
  const root = await bentHost(t, 'two-gpus', { [`${node1}/gpu_id`]: '777\n' });
  const host = { ...(await readHost({ root, kfdVersion })), machine: 'x86_64' };
  assert.deepEqual(compareHost(sampleManifest(), host), []);
  assert.equal(placeAsIs(sampleManifest(), host).pairs[0]?.present.record.gpu_id, 777);
});

test('a host without KFD is one sentence, beside the kernel', async () => {
  const host = { ...(await readHost({ root: sysfs('no-kfd') })), machine: 'x86_64' };
  assert.deepEqual(codes(sampleManifest(), host), ['E_NO_GPU']);
});

test('fewer GPUs: the count and the missing one are named', async () => {
  const host = { ...(await readHost({ root: sysfs('one-gpu'), kfdVersion })), machine: 'x86_64' };
  const found = compareHost(sampleManifest(), host);
  assert.equal(found[0]?.code, 'E_NO_GPU');
  assert.match(found[0]?.message ?? '', /2 are needed, 1 on this host/);
  assert.equal(found[1]?.gpu, 1);
  assert.match(found[1]?.message ?? '', /renderD129/);
});

test('differences of the model are told with both values', async (t) => {
  const bend = async (from: string, to: string) => {
    const properties =
      'cpu_cores_count 0\nsimd_count 416\ngfx_target_version 90010\nlocation_id 768\n' +
      'drm_render_minor 128\nnum_xcc 1\n';
    assert.ok(properties.includes(from));
    const root = await bentHost(t, 'two-gpus', {
      [`${node1}/properties`]: properties.replace(from, to),
    });
    const host = { ...(await readHost({ root, kfdVersion })), machine: 'x86_64' };
    return compareHost(sampleManifest(), host);
  };
  for (const [from, to, message] of [
    ['version 90010', 'version 90402', /gfx version was gfx90a, is gfx942 here/],
    ['num_xcc 1', 'num_xcc 8', /num_xcc\) was 1, is 8 here/],
    ['simd_count 416', 'simd_count 440', /simd_count was 416, is 440 here/],
  ] as const) {
    const found = await bend(from, to);
    assert.deepEqual(
      found.map((mismatch) => [mismatch.code, mismatch.gpu]),
      [['E_GPU_MISMATCH', 0]],
    );
    assert.match(found[0]?.message ?? '', message);
  }
});

test('too little free VRAM names the bytes on both sides', async (t) => {
  const root = await bentHost(t, 'two-gpus', {
    'sys/devices/pci0000:00/0000:03:00.0/mem_info_vram_used': `${68702699519 - 8388608}\n`,
  });
  const host = { ...(await readHost({ root, kfdVersion })), machine: 'x86_64' };
  assert.deepEqual(vramNeeded(sampleManifest()), [2097152, 1048576]);
  const found = compareHost(sampleManifest(), host);
  assert.deepEqual(
    found.map((mismatch) => mismatch.code),
    ['E_VRAM'],
  );
  assert.match(found[0]?.message ?? '', /2097152 bytes of VRAM are needed, 1 are free/);
});

test('kernel, driver and machine bind the state', async () => {
  const host = await twoGpus();
  const other = { ...host, kernelRelease: '6.13.0', kfdVersion: '1.18', machine: 'aarch64' };
  assert.deepEqual(codes(sampleManifest(), other), [
    'E_KERNEL_MISMATCH',
    'E_KERNEL_MISMATCH',
    'E_KERNEL_MISMATCH',
  ]);
  assert.deepEqual(codes(sampleManifest(), { ...host, kfdVersion: undefined }), []);
});

test('moved device numbers are told apart from missing GPUs', async (t) => {
  const host = await twoGpus();
  assert.deepEqual(codes(sampleManifest(), { ...host, kfdDevice: { major: 511, minor: 0 } }), [
    'E_DEVICE_MOVED',
  ]);
  const gpus = host.gpus.map((gpu) => ({
    ...gpu,
    renderDevice: { major: 225, minor: gpu.record.render_minor },
  }));
  assert.deepEqual(codes(sampleManifest(), { ...host, gpus }), [
    'E_DEVICE_MOVED',
    'E_DEVICE_MOVED',
  ]);
  const root = await bentHost(t, 'one-gpu', {
    [`${node1}/properties`]:
      'simd_count 416\ngfx_target_version 90010\nlocation_id 768\ndrm_render_minor 131\nnum_xcc 1\n',
    'sys/class/drm/renderD131/dev': '226:131\n',
  });
  const one = sampleManifest();
  one.gpus.pop();
  const found = compareHost(one, { ...(await readHost({ root, kfdVersion })), machine: 'x86_64' });
  assert.deepEqual(
    found.map((mismatch) => mismatch.code),
    ['E_DEVICE_MOVED'],
  );
  assert.match(found[0]?.message ?? '', /renderD128.*renderD131/);
});

test('a required feature nobody knows is refused', async () => {
  const manifest = sampleManifest();
  manifest.features = { required: ['parent-frames'], optional: ['notes'] };
  assert.deepEqual(codes(manifest, await twoGpus()), ['E_UNSUPPORTED_STATE']);
});

test('all reasons come at once, each with a next step', async () => {
  const host = {
    ...(await readHost({ root: sysfs('one-gpu'), kfdVersion: '1.18' })),
    machine: 'x86_64',
  };
  const manifest = sampleManifest();
  manifest.host.kernel_release = '6.1.0';
  manifest.devices.kfd_major = 240;
  manifest.features.required.push('x');
  const found = compareHost(manifest, host);
  assert.deepEqual([...new Set(found.map((mismatch) => mismatch.code))].sort(), [
    'E_DEVICE_MOVED',
    'E_KERNEL_MISMATCH',
    'E_NO_GPU',
    'E_UNSUPPORTED_STATE',
  ]);
  assert.ok(found.every((mismatch) => mismatch.hint.length > 10));
});

test('a GPU of the source that no process could see does not matter', async () => {
  const host = { ...(await readHost({ root: sysfs('one-gpu'), kfdVersion })), machine: 'x86_64' };
  const manifest = sampleManifest();
  Object.assign(manifest.processes[0] as object, { gpus: [0] });
  assert.deepEqual(compareHost(manifest, host), []);
});

const gib = 2 ** 30;

test('an exact fit is not promised: KFD keeps VRAM back for page tables', async (t) => {
  const pci = 'sys/devices/pci0000:00/0000:03:00.0';
  const bent = (memory: string) =>
    bentHost(t, 'one-gpu', {
      [`${pci}/mem_info_vram_total`]: `${192 * gib}\n`,
      [`${pci}/mem_info_vram_used`]: '0\n',
      'proc/meminfo': memory,
    });
  const free = async (memory: string) =>
    (await readHost({ root: await bent(memory) })).gpus[0]?.vramFreeBytes;
  // (2 TiB of memory + 192 GiB of VRAM) / 16384; 8 MiB at least.
  assert.equal(await free('MemTotal:       2147483648 kB\n'), 192 * gib - 140 * 2 ** 20);
  assert.equal(await free('MemTotal:       1048576 kB\n'), 192 * gib - (193 * gib) / 2 ** 14);
  assert.equal(await free(''), 192 * gib - 12 * 2 ** 20);
});

test('GTT memory beyond the limit of the host is refused', async (t) => {
  const limits = async (changes: Record<string, string>) =>
    (await readHost({ root: await bentHost(t, 'two-gpus', changes) })).gttLimitBytes;
  const meminfo = { 'proc/meminfo': 'MemTotal:       8388608 kB\nMemFree:        1 kB\n' };
  assert.equal(await limits(meminfo), 4 * gib);
  const pages = { 'sys/module/ttm/parameters/pages_limit': `${(6 * gib) / 4096}\n` };
  assert.equal(await limits({ ...meminfo, ...pages }), 6 * gib);
  assert.equal(await limits({}), undefined);

  const manifest = sampleManifest();
  const needed = manifest.buffers
    .filter(({ kind }) => kind === 'gtt')
    .reduce((sum, { size }) => sum + size, 0);
  assert.ok(needed > 0);
  const host = await twoGpus();
  assert.deepEqual(compareHost(manifest, { ...host, gttLimitBytes: needed }), []);
  const refused = compareHost(manifest, { ...host, gttLimitBytes: needed - 1 });
  assert.deepEqual(
    refused.map(({ code }) => code),
    ['E_HOST'],
  );
  assert.match(refused[0]?.message ?? '', /bytes of GTT memory are needed/);
});
