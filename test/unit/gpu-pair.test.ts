import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assign } from '../../src/gpu/assign.js';
import { placeOnHost } from '../../src/gpu/compare.js';
import { parseGpuMap } from '../../src/gpu/gpu-map.js';
import type { Host } from '../../src/gpu/host.js';
import { pairGpus } from '../../src/gpu/pair.js';
import type { Manifest, ManifestGpu } from '../../src/manifest/schema.js';
import { type Bend, chosen, hostWith } from './host-builder.js';
import { sampleManifest } from './manifest-sample.js';

test('the least sum is found among all assignments', () => {
  let state = 7;
  const random = (below: number) => {
    state = (state * 1103515245 + 12345) % 2 ** 31;
    return state % below;
  };
  const best = (costs: number[][], row: number, used: readonly number[]): number =>
    row === costs.length
      ? 0
      : Math.min(
          ...(costs[row] as number[]).map((cost, column) =>
            used.includes(column)
              ? Number.POSITIVE_INFINITY
              : cost + best(costs, row + 1, [...used, column]),
          ),
        );
  for (let round = 0; round < 300; round++) {
    const rows = random(5);
    const columns = rows + random(3);
    const costs = Array.from({ length: rows }, () =>
      Array.from({ length: columns }, () => (random(3) === 0 ? 2 ** 41 : random(50))),
    );
    const at = (row: number, column: number) => costs[row]?.[column] ?? Number.NaN;
    const columnOf = assign(rows, columns, at);
    assert.equal(new Set(columnOf).size, rows);
    assert.equal(
      columnOf.reduce((sum, column, row) => sum + at(row, column), 0),
      best(costs, 0, []),
    );
  }
});

test('GPUs go to where the archive fits as it is, else where they were, else in order', () => {
  assert.deepEqual(chosen(hostWith({}, {}, {})), ['0>0', '1>1']);
  // The second keeps its node although the first could have had it.
  assert.deepEqual(chosen(hostWith({ render_minor: 129 }, {})), ['0>1', '1>0']);
  const [first, second] = sampleManifest().gpus as [ManifestGpu, ManifestGpu];
  assert.deepEqual(chosen(hostWith({}, { location: second.location }, {})), ['0>0', '1>1']);
  assert.deepEqual(chosen(hostWith({ location: second.location }, { location: first.location })), [
    '0>1',
    '1>0',
  ]);
  assert.deepEqual(chosen(hostWith({ gpu_id: second.gpu_id }, { gpu_id: first.gpu_id })), [
    '0>1',
    '1>0',
  ]);
  // One render node weighs more than place and id together.
  assert.deepEqual(
    chosen(hostWith({ render_minor: 129, location: first.location, gpu_id: first.gpu_id }, {})),
    ['0>1', '1>0'],
  );
});

test('a full assignment is found where taking the nearest first would miss it', () => {
  const manifest = sampleManifest();
  // The first fits everywhere and would like GPU 0, which is the only one with room for the second.
  Object.assign(manifest.buffers[2] as object, { size: 2 ** 30 });
  const host = hostWith({ render_minor: 128, free: 2 ** 31 }, { free: 2 ** 25 });
  assert.deepEqual(chosen(host, manifest), ['0>1', '1>0']);
  assert.deepEqual(placeOnHost(manifest, host).mismatches, []);
});

test('capability decides: gfx version, dies, compute units, free memory, a render node', () => {
  const host = hostWith(
    { gfx_target_version: 90402 },
    { num_xcc: 8 },
    { simd_count: 8 },
    { free: 100 },
    {},
    {},
  );
  assert.deepEqual(chosen(host), ['0>4', '1>5']);
  const bare = host.gpus.map((gpu) => ({ ...gpu, renderDevice: undefined }));
  const { pairs, mismatches } = pairGpus(sampleManifest(), { ...host, gpus: bare });
  assert.deepEqual(pairs, []);
  assert.ok(mismatches.some(({ message }) => /has no render node/.test(message)));
});

test('the memory a GPU has need not be the recorded: what is needed has to be free', () => {
  assert.deepEqual(chosen(hostWith({ vram_bytes: 2 ** 30, free: 2 ** 26 }, {})), ['0>0', '1>1']);
});

test('who finds no place is told why, against the GPU that comes closest', () => {
  const at = (host: Host) =>
    pairGpus(sampleManifest(), host).mismatches.map(({ code, gpu, message }) => [
      code,
      gpu,
      message,
    ]);
  assert.deepEqual(
    at(hostWith({}, { gfx_target_version: 90006, simd_count: 8 }, { simd_count: 4 })),
    [['E_GPU_MISMATCH', 1, 'gpu 1 (renderD129): simd_count was 416, is 4 here']],
  );
  assert.deepEqual(at(hostWith({}, { free: 5 })), [
    ['E_VRAM', 1, 'gpu 1 (renderD129): 1048576 bytes of VRAM are needed, 5 are free'],
  ]);
  assert.deepEqual(at(hostWith({})), [
    [
      'E_NO_GPU',
      1,
      'gpu 1 (renderD129): no GPU is left for it, of 1 on this host; it was a gfx90a',
    ],
  ]);
});

test('GPUs that a process had linked by XGMI become GPUs of one hive', () => {
  const manifest = sampleManifest();
  for (const gpu of manifest.gpus) gpu.hive_id = '18446744073709551615';
  const hives = (...ids: (string | undefined)[]) =>
    hostWith(...ids.map((id): Bend => (id === undefined ? {} : { hive_id: id })));
  assert.deepEqual(chosen(hives('1', undefined, '2', '2'), manifest), ['0>2', '1>3']);
  assert.deepEqual(chosen(hives('1', '2', '1', '2'), manifest), ['0>0', '1>2']);
  // A hive where both render nodes stay wins over the order.
  const same = hostWith(
    { hive_id: '1' },
    { hive_id: '1' },
    { hive_id: '2', render_minor: 129 },
    { hive_id: '2', render_minor: 128 },
  );
  assert.deepEqual(chosen(same, manifest), ['0>3', '1>2']);
  for (const host of [hives('1', '2'), hives('1', undefined, '2')]) {
    const { mismatches } = pairGpus(manifest, host);
    assert.deepEqual(
      mismatches.map(({ code }) => code),
      ['E_GPU_MISMATCH'],
    );
    assert.match(
      mismatches[0]?.message ?? '',
      /^gpu 1 \(renderD129\): was linked by XGMI or as a partition/,
    );
  }
  const none = pairGpus(manifest, hives(undefined, undefined)).mismatches;
  assert.deepEqual(
    none.map(({ gpu }) => gpu),
    [0, 1],
  );
  // The operator decides otherwise; and links that no process had in common do not count.
  const map = parseGpuMap('renderD128=renderD140,renderD129=renderD141');
  assert.deepEqual(chosen(hives(undefined, undefined), manifest, map), ['0>0', '1>1']);
  const [first] = manifest.processes as [Manifest['processes'][number]];
  manifest.processes = [
    { ...first, gpus: [0] },
    { ...first, ordinal: 1, gpus: [1] },
  ];
  assert.deepEqual(chosen(hives('1', '2'), manifest), ['0>0', '1>1']);
});

/** Addresses of the first partitions of a device. */
const partitions = (device: string, count: number): Bend[] =>
  Array.from({ length: count }, (_, number) => ({ location: `0000:${device}:00.${number}` }));

/** The sample, with its GPUs at these addresses. */
function recordedAt(...locations: readonly string[]): Manifest {
  const manifest = sampleManifest();
  manifest.gpus.forEach((gpu, ordinal) => {
    Object.assign(gpu, { location: locations[ordinal] });
  });
  return manifest;
}

/** A process for each GPU: none needs a link. */
function apart(manifest: Manifest): Manifest {
  const [first] = manifest.processes as [Manifest['processes'][number]];
  const processes = [
    { ...first, gpus: [0] },
    { ...first, ordinal: 1, gpus: [1] },
  ];
  return { ...manifest, processes };
}

test('a partition goes to the partition with its number, on any device', () => {
  const manifest = apart(recordedAt('0000:0c:00.2', '0000:0c:00.3'));
  assert.deepEqual(chosen(hostWith(...partitions('0c', 4)), manifest), ['0>2', '1>3']);
  // Render nodes stay where they were if the number allows it.
  const host = hostWith(
    { ...partitions('0c', 2)[0], render_minor: 128 },
    partitions('0c', 2)[1] as Bend,
  );
  const first = apart(recordedAt('0000:0c:00.1', '0000:0c:00.0'));
  assert.deepEqual(chosen(host, first), ['0>1', '1>0']);
  const two = hostWith(...partitions('0c', 3), ...partitions('22', 4));
  assert.deepEqual(chosen(two, manifest), ['0>2', '1>6']);
  const { mismatches } = pairGpus(manifest, hostWith(...partitions('0c', 3)));
  assert.deepEqual(
    mismatches.map(({ code, gpu, message }) => [code, gpu, message]),
    [
      [
        'E_GPU_MISMATCH',
        1,
        'gpu 1 (renderD129): was partition 3 of its device, gpu 1000 here is 0',
      ],
    ],
  );
});

test('a whole GPU may be at any function, and is like the first partition', () => {
  const whole = apart(recordedAt('0000:0c:00.4', '0000:22:00.0'));
  assert.deepEqual(chosen(hostWith({}, {}), whole), ['0>0', '1>1']);
  assert.deepEqual(chosen(hostWith(...partitions('0c', 2), {}), whole), ['0>0', '1>2']);
});

test('partitions of one device that a process had together stay on one device, or in one hive', () => {
  const manifest = recordedAt('0000:0c:00.0', '0000:0c:00.1');
  const [a0, a1] = partitions('0c', 2) as [Bend, Bend];
  const [b0, b1] = partitions('22', 2) as [Bend, Bend];
  const full = { free: 0 };
  assert.deepEqual(chosen(hostWith({ ...a0, ...full }, a1, b0, b1), manifest), ['0>2', '1>3']);
  const { mismatches } = pairGpus(
    manifest,
    hostWith({ ...a0, ...full }, a1, b0, { ...b1, ...full }),
  );
  assert.equal(mismatches.length, 1);
  const hive = { hive_id: '7' };
  const linked = hostWith(
    { ...a0, ...full, ...hive },
    { ...a1, ...hive },
    { ...b0, ...hive },
    { ...b1, ...full, ...hive },
  );
  assert.deepEqual(chosen(linked, manifest), ['0>2', '1>1']);
  assert.deepEqual(chosen(hostWith({ ...a0, ...full }, a1, b0, b1), apart(manifest)), [
    '0>2',
    '1>1',
  ]);
});

test('a manifest of as many GPUs and hives as there can be is judged at once', () => {
  const manifest: Manifest = sampleManifest();
  const [first] = manifest.gpus as [ManifestGpu];
  manifest.gpus = Array.from({ length: 256 }, (_, ordinal) => ({
    ...first,
    ordinal,
    hive_id: `${1 + (ordinal >> 1)}`,
  }));
  Object.assign(manifest.processes[0] as object, { gpus: manifest.gpus.map((gpu) => gpu.ordinal) });
  const host = hostWith(
    ...Array.from({ length: 8 }, (_, i): Bend => ({ hive_id: `${1 + (i >> 1)}` })),
  );
  const began = process.cpuUsage();
  const { mismatches } = placeOnHost(manifest, host);
  assert.equal(mismatches[0]?.message, 'gpus: 256 are needed, 8 on this host');
  const { user } = process.cpuUsage(began);
  assert.ok(user < 30_000_000, `took ${user} us`);
});
