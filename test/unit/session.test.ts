import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { KfdError } from '../../src/errors.js';
import { type Host, readHost } from '../../src/gpu/host.js';
import { encodeManifest } from '../../src/manifest/codec.js';
import { frameBytes, stagingRing } from '../../src/session/contents/staging.js';
import { composeManifest } from '../../src/session/dump/compose-manifest.js';
import { planDrain } from '../../src/session/dump/plan-drain.js';
import { Phases } from '../../src/session/phases.js';
import {
  asSessionError,
  explain,
  reportedFailure,
} from '../../src/session/plugin/serve-messages.js';
import { boIndices, fileKind, messageType } from '../../src/session/plugin/wire.js';
import { dumped, kfdVersion, manifestFacts } from './dumped.js';
import { fixtures, repository } from './paths.js';
import { stateBytes } from './state-builder.js';

test('phases sum to the total, a phase that comes back included', async () => {
  const phases = new Phases('a');
  await sleep(20);
  phases.enter('b');
  await sleep(5);
  phases.enter('a');
  await sleep(20);
  const { total, ...each } = phases.timings();
  const { a = 0, b = 0 } = each;
  assert.deepEqual(Object.keys(each), ['a', 'b']);
  assert.ok(a >= 38_000, `a took ${a} us`);
  assert.ok(b >= 4_000 && b < a, `b took ${b} us`);
  assert.ok(Math.abs(a + b - (total ?? 0)) <= 2);
  // Asking ends nothing.
  await sleep(5);
  const later = phases.timings();
  assert.ok((later['a'] ?? 0) >= a + 4_000);
  assert.equal(later['b'], b);
});

test('BO indices are as many as the descriptors that came with them', () => {
  const body = Buffer.from([1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]);
  assert.deepEqual(boIndices(body, 2), [1, 0xffffffff]);
  assert.deepEqual(boIndices(Buffer.alloc(0), 0), []);
  for (const [bytes, count] of [
    [8, 1],
    [8, 3],
    [7, 1],
    [7, 2],
    [0, 1],
    [4, 0],
  ] as const) {
    assert.throws(() => boIndices(body.subarray(0, bytes), count), { code: 'E_PROTOCOL' });
  }
});

test('message numbers are those of the native code', async () => {
  const header = await readFile(join(repository, 'native/core/wire/wire.h'), 'utf8');
  const numbers = (name: string): [string, number][] => {
    const body = new RegExp(`enum class ${name} [^{]*\\{([^}]*)\\}`).exec(header)?.[1] ?? '';
    return [...body.replace(/\/\/.*$/gm, '').matchAll(/(\w+)\s*=\s*(\d+)/g)].map((match) => [
      (match[1] ?? '').replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase()),
      Number(match[2]),
    ]);
  };
  const byName = (pairs: [string, number][]) => Object.fromEntries(pairs.sort());
  assert.deepEqual(byName(Object.entries(messageType)), byName(numbers('MessageType')));
  assert.deepEqual(byName(Object.entries(fileKind)), byName(numbers('FileKind')));
});

test('an explanation has code, reason, next step and the log', () => {
  const plain = new KfdError('E_IO', 'x: broke');
  assert.equal(explain(plain, '/l'), 'E_IO: x: broke; session log: /l');
  const hinted = new KfdError('E_VRAM', 'x: full', { hint: 'empty it' });
  assert.equal(explain(hinted, '/l'), 'E_VRAM: x: full (empty it); session log: /l');
  const hostile = new KfdError('E_UNSUPPORTED_STATE', 'pid 7 (a\u001b[2J\nError: b\u009b)');
  assert.equal(
    explain(hostile, '/l'),
    'E_UNSUPPORTED_STATE: pid 7 (a?[2J?Error: b?); session log: /l',
  );
});

test('errors of the addon, of Node and of ours keep their kind', () => {
  const own = new KfdError('E_TIMEOUT', 'x');
  assert.equal(asSessionError(own), own);
  const coded = (code: string) => asSessionError(Object.assign(new Error('why'), { code })).code;
  assert.equal(coded('KFD_CORRUPT'), 'E_IMAGE_CORRUPT');
  assert.equal(coded('KFD_GPU'), 'E_GPU_IO');
  assert.equal(coded('KFD_IO'), 'E_IO');
  assert.equal(coded('ENOENT'), 'E_IO');
  assert.equal(asSessionError(new Error('why')).code, 'E_INTERNAL');
  assert.equal(asSessionError('why').code, 'E_INTERNAL');
});

test("a plugin's failure has the code of its kind, a fault of its program E_INTERNAL", () => {
  const said = (text: string, args: number[]) =>
    reportedFailure({ args, body: Buffer.from(text) }, 'E_GPU_IO');
  assert.equal(said('KFD: busy', [3, 0, 0, 0]).code, 'E_GPU_IO');
  const fault = said('internal error: map::at', [3, 1, 0, 0]);
  assert.equal(fault.code, 'E_INTERNAL');
  assert.equal(fault.message, 'internal error: map::at');
});

test('ring and workers stay in their budget, and there is room for both', () => {
  for (const [mib, cores, slots, workers] of [
    [8, 64, 2, 1],
    [9, 64, 2, 1],
    [64, 1, 24, 4],
    [64, 8, 16, 8],
    [64, 64, 16, 8],
    [256, 2, 32, 4],
    [256, 64, 32, 16],
  ] as const) {
    const ring = stagingRing({ staging_mib: mib }, cores);
    assert.deepEqual(ring, { slots, slotBytes: frameBytes, workers });
    assert.ok((ring.slots + 2 * ring.workers) * frameBytes <= mib << 20);
  }
});

async function twoGpus(): Promise<Host> {
  return readHost({ root: join(fixtures, 'sysfs/two-gpus'), kfdVersion });
}

test('contents are drained into one file per GPU, numbered across the image', async () => {
  const parts = planDrain(await twoGpus(), [dumped()], []);
  assert.deepEqual(
    parts.map(({ name, gpu, buffers }) => [
      name,
      gpu.record.gpu_id,
      buffers.map((buffer) => [buffer.id, buffer.bo_index, buffer.size, buffer.kind, buffer.gpu]),
    ]),
    [
      [
        'amdgpu-pages-0-0000.img',
        51966,
        [
          [0, 0, 8192, 'vram', 0],
          [1, 3, 4096, 'gtt', 0],
        ],
      ],
      ['amdgpu-pages-0-0001.img', 47806, [[2, 2, 16384, 'vram', 1]]],
    ],
  );
});

test('buffers are numbered across processes', async () => {
  const second = { ...dumped(), ordinal: 1 };
  const parts = planDrain(await twoGpus(), [dumped(), second], []);
  assert.deepEqual(
    parts.map(({ name, buffers }) => [name, buffers.map(({ id }) => id)]),
    [
      ['amdgpu-pages-0-0000.img', [0, 1]],
      ['amdgpu-pages-0-0001.img', [2]],
      ['amdgpu-pages-1-0000.img', [3, 4]],
      ['amdgpu-pages-1-0001.img', [5]],
    ],
  );
});

test('a BO that would be lost stops the checkpoint', async () => {
  const host = await twoGpus();
  const noDmabuf = dumped();
  noDmabuf.dmabufs.delete(3);
  assert.throws(() => planDrain(host, [noDmabuf], []), { code: 'E_PROTOCOL' });
  const oneDevice = dumped({ devices: [{ userGpuId: 0x1234, actualGpuId: 51966, renderVmas: 0 }] });
  assert.throws(() => planDrain(host, [oneDevice], []), { code: 'E_GPU_MISMATCH' });
  const stranger = dumped({ devices: [{ userGpuId: 0x1234, actualGpuId: 1, renderVmas: 0 }] });
  assert.throws(() => planDrain(host, [stranger], []), { code: 'E_GPU_MISMATCH' });
  const { summary: _, ...bare } = dumped();
  assert.throws(() => planDrain(host, [bare], []), { code: 'E_PROTOCOL' });
});

test('the composed manifest is sound and says what was dumped', async () => {
  const host = await twoGpus();
  // Its SDMA queue is on the second GPU, which the process knows by its old id.
  const queue = {
    id: 1,
    gpuId: 0x5678,
    type: 1,
    ringBytes: 0,
    priority: 0,
    mqd: 0,
    controlStack: 0,
  };
  const none = { bos: [], vmas: 0, events: [], ranges: [] };
  const state = stateBytes({ devices: 2, queues: [queue], ...none });
  const process = { ...dumped(), state };
  const result = {
    contentBytes: 0,
    fileBytes: 100,
    frames: 1,
    zeroFrames: 0,
    references: 0,
    siblings: 0,
    digests: true,
    root: 'ab'.repeat(16),
    bytes: 12288,
    wallUs: 700,
    workers: 4,
    stages: {
      file: { bytes: 8192, busyUs: 100 },
      code: { bytes: 12288, busyUs: 60 },
      hash: { bytes: 8192, busyUs: 20 },
      copy: { bytes: 12288, waitUs: 500 },
      work: { bytes: 12288, waitUs: 40 },
    },
    directBytes: 0,
    turnWaitUs: 3,
    slowest: 'copy',
    engine: 'cpu',
  } as const;
  const manifest = composeManifest({
    host,
    processes: [process],
    extFiles: [{ criu_id: 5, kind: 'kfd', process: 0 }],
    dmabufFiles: [{ criuId: 6, owner: { process: 0, bo_index: 2 } }],
    drained: planDrain(host, [process], []).map((part) => ({ ...part, result })),
    shares: [],
    parent: undefined,
    detached: false,
    timings: { total: 5 },
    nodes: new Set<number>(),
  });
  assert.doesNotThrow(() => encodeManifest(manifest));
  const buffer = manifest.buffers.find(({ bo_index: index }) => index === 2)?.id;
  assert.deepEqual(manifest.ext_files[1], { criu_id: 6, kind: 'dmabuf', process: 0, buffer });
  assert.deepEqual(manifest.processes, [
    {
      ordinal: 0,
      pid: 4711,
      ns_pid: 7,
      comm: 'worker',
      state_file: 'kfd-state-0.img',
      gpus: [0, 1],
      sdma_gpus: [1],
      num_bos: 5,
      num_objects: 3,
      vram_bytes: 24576,
      gtt_bytes: 4096,
    },
  ]);
  assert.deepEqual(manifest.files[0], {
    name: 'kfd-state-0.img',
    size: state.length,
    digest: { algo: 'sha256', hex: createHash('sha256').update(state).digest('hex') },
  });
  assert.equal(manifest.files.length, 3);
  const transfer = {
    engine: 'cpu',
    workers: 4,
    bytes: 12288,
    stored_bytes: 8192,
    wall_us: 700,
    copy_wait_us: 500,
    work_wait_us: 40,
    file_us: 100,
    code_us: 60,
    hash_us: 20,
    turn_wait_us: 3,
    slowest: 'copy',
  };
  assert.deepEqual(manifest.transfers, [
    { file: 'amdgpu-pages-0-0000.img', ...transfer },
    { file: 'amdgpu-pages-0-0001.img', ...transfer },
  ]);
  assert.throws(
    () => composeManifest({ ...manifestFacts(host), host: { ...host, kfdDevice: undefined } }),
    { code: 'E_NO_GPU' },
  );
});
