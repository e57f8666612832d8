import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { cp, mkdir, readFile, unlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { defaultConfig } from '../../src/config.js';
import { KfdError } from '../../src/errors.js';
import { type Host, readHost } from '../../src/gpu/host.js';
import { encodeManifest } from '../../src/manifest/codec.js';
import { writeManifest } from '../../src/manifest/image.js';
import type { Manifest } from '../../src/manifest/schema.js';
import { type Descriptor, native, type StateSummary } from '../../src/native.js';
import { composeManifest } from '../../src/session/compose-manifest.js';
import { explain, nativeOrOwn } from '../../src/session/conversation.js';
import { planDrain } from '../../src/session/drain.js';
import type { DumpedProcess } from '../../src/session/dump.js';
import { Phases } from '../../src/session/phases.js';
import { checkBuffers, preflight } from '../../src/session/preflight.js';
import { frameBytes, stagingRing } from '../../src/session/staging.js';
import { boIndices, fileKind, messageType } from '../../src/session/wire.js';
import { sampleManifest } from './manifest-sample.js';
import { fixtures, repository, temporaryFolder } from './paths.js';
import { bentHost } from './sysfs-tree.js';

const images = join(fixtures, 'image-v1');
const kfdVersion = '1.17';

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
  const header = await readFile(join(repository, 'native/core/wire.h'), 'utf8');
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
});

test('errors of the addon, of Node and of ours keep their kind', () => {
  const own = new KfdError('E_TIMEOUT', 'x');
  assert.equal(nativeOrOwn(own), own);
  const coded = (code: string) => nativeOrOwn(Object.assign(new Error('why'), { code })).code;
  assert.equal(coded('KFD_CORRUPT'), 'E_IMAGE_CORRUPT');
  assert.equal(coded('KFD_GPU'), 'E_GPU_IO');
  assert.equal(coded('KFD_IO'), 'E_IO');
  assert.equal(coded('ENOENT'), 'E_IO');
  assert.equal(nativeOrOwn(new Error('why')).code, 'E_INTERNAL');
  assert.equal(nativeOrOwn('why').code, 'E_INTERNAL');
});

test('the staging ring stays in its budget and never has fewer than two slots', () => {
  for (const [mib, slots] of [
    [1, 2],
    [4, 2],
    [7, 3],
    [64, 32],
    [256, 32],
  ] as const) {
    const ring = stagingRing({ ...defaultConfig(), staging_mib: mib });
    assert.deepEqual(ring, { slots, slotBytes: frameBytes });
  }
});

const closed: Descriptor = { fd: -1, close() {} };

/** A process of two GPUs, with every kind of BO. */
function dumped(summary: Partial<StateSummary> = {}): DumpedProcess {
  const bos = [
    { gpuId: 0x1234, size: 8192, kind: 'vram', allocFlags: 1 },
    { gpuId: 0x1234, size: 4096, kind: 'userptr', allocFlags: 4 },
    { gpuId: 0x5678, size: 16384, kind: 'vram', allocFlags: 1 },
    { gpuId: 0x1234, size: 4096, kind: 'gtt', allocFlags: 2 },
    { gpuId: 0x5678, size: 8192, kind: 'doorbell', allocFlags: 8 },
  ] as const;
  return {
    ordinal: 0,
    pid: 4711,
    comm: 'worker',
    kfd: closed,
    pidfd: closed,
    state: Buffer.from('state'),
    summary: {
      ordinal: 0,
      nsPid: 7,
      numObjects: 3,
      privBytes: 64,
      vmas: 2,
      // A process that was restored before knows its GPUs by their old ids.
      devices: [
        { userGpuId: 0x1234, actualGpuId: 51966 },
        { userGpuId: 0x5678, actualGpuId: 47806 },
      ],
      bos,
      ...summary,
    },
    renderFiles: [],
    dmabufs: new Map([0, 2, 3].map((index) => [index, closed])),
  };
}

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
  const oneDevice = dumped({ devices: [{ userGpuId: 0x1234, actualGpuId: 51966 }] });
  assert.throws(() => planDrain(host, [oneDevice], []), { code: 'E_GPU_MISMATCH' });
  const stranger = dumped({ devices: [{ userGpuId: 0x1234, actualGpuId: 1 }] });
  assert.throws(() => planDrain(host, [stranger], []), { code: 'E_GPU_MISMATCH' });
  const { summary: _, ...bare } = dumped();
  assert.throws(() => planDrain(host, [bare], []), { code: 'E_PROTOCOL' });
});

test('the composed manifest is sound and says what was dumped', async () => {
  const host = await twoGpus();
  const process = dumped();
  const result = {
    contentBytes: 0,
    fileBytes: 100,
    frames: 1,
    zeroFrames: 0,
    root: 'ab'.repeat(16),
    bytes: 0,
    fileUs: 0,
    copyUs: 0,
    wallUs: 0,
    engine: 'cpu',
  } as const;
  const manifest = composeManifest({
    host,
    processes: [process],
    extFiles: [{ criu_id: 5, kind: 'kfd', process: 0 }],
    drained: planDrain(host, [process], []).map((part) => ({ ...part, result })),
    shares: [],
    timings: { total: 5 },
  });
  assert.doesNotThrow(() => encodeManifest(manifest));
  assert.deepEqual(manifest.processes, [
    {
      ordinal: 0,
      pid: 4711,
      ns_pid: 7,
      comm: 'worker',
      state_file: 'kfd-state-0.img',
      gpus: [0, 1],
      num_bos: 5,
      num_objects: 3,
      vram_bytes: 24576,
      gtt_bytes: 4096,
    },
  ]);
  assert.deepEqual(manifest.files[0], {
    name: 'kfd-state-0.img',
    size: 5,
    digest: {
      algo: 'sha256',
      // printf state | sha256sum
      hex: '4ba69735ca53765ed6a709edb56c6ea236b7193a3b29a6b390c346f0f4340e4e',
    },
  });
  assert.equal(manifest.files.length, 3);
  assert.throws(
    () => composeManifest({ ...manifestFacts(host), host: { ...host, kfdDevice: undefined } }),
    { code: 'E_NO_GPU' },
  );
});

function manifestFacts(host: Host) {
  return { host, processes: [], extFiles: [], drained: [], shares: [], timings: {} };
}

/** `bytes` with its last bit changed. */
function flipped(bytes: Buffer): Buffer {
  return Buffer.concat([bytes.subarray(0, -1), Buffer.of((bytes.at(-1) ?? 0) ^ 1)]);
}

/** A sealed image of one process without BOs, and options for the host it was taken on. */
async function sealedImage(t: TestContext, bend: (manifest: Manifest) => void = () => {}) {
  const directory = join(await temporaryFolder(t), 'image');
  await mkdir(directory);
  await cp(join(images, 'state-empty.img'), join(directory, 'kfd-state-0.img'));
  const root = await bentHost(t, 'two-gpus', {});
  const hostOptions = { root, kfdVersion };
  const manifest = composeManifest({
    ...manifestFacts(await readHost(hostOptions)),
    processes: [
      {
        ...dumped({ bos: [], devices: [], numObjects: 0 }),
        state: readFileSync(join(images, 'state-empty.img')),
      },
    ],
  });
  bend(manifest);
  await writeManifest(directory, manifest);
  return { directory, hostOptions };
}

test('preflight: a sound image is ready, one without a GPU is none of ours', async (t) => {
  const { directory, hostOptions } = await sealedImage(t);
  const ready = await preflight(directory, {}, hostOptions);
  assert.equal(ready?.processes.length, 1);
  assert.equal(ready.processes[0]?.summary.ordinal, 0);
  assert.equal(await preflight(await temporaryFolder(t), {}, hostOptions), undefined);
});

test('preflight: what is wrong with the image is found before a task exists', async (t) => {
  const refused = async (
    code: string,
    pattern: RegExp,
    damage: (directory: string) => Promise<void>,
    bend?: (manifest: Manifest) => void,
  ) => {
    const { directory, hostOptions } = await sealedImage(t, bend);
    await damage(directory);
    await assert.rejects(preflight(directory, {}, hostOptions), (error: KfdError) => {
      assert.equal(error.code, code, error.message);
      assert.match(error.message, pattern);
      return true;
    });
  };
  const state = 'kfd-state-0.img';
  const remove = (name: string) => (directory: string) => unlink(join(directory, name));
  await refused('E_IMAGE_UNSEALED', /never finished/, remove('kfd-manifest.json'));
  await refused('E_IMAGE_MISSING', /kfd-state-0\.img: not in the image/, remove(state));
  await refused('E_IMAGE_CORRUPT', /kfd-state-0\.img: is 3 bytes/, (d) =>
    writeFile(join(d, state), 'abc'),
  );
  await refused('E_IMAGE_CORRUPT', /kfd-state-0\.img: does not match its digest/, async (d) => {
    await writeFile(join(d, state), flipped(await readFile(join(d, state))));
  });
  const useState = (bytes: Buffer) => ({
    damage: (d: string) => writeFile(join(d, state), bytes),
    bend: (manifest: Manifest) => {
      const [file] = manifest.files as { size: number; digest: { hex: string } }[];
      assert.ok(file);
      file.size = bytes.length;
      file.digest.hex = createHash('sha256').update(bytes).digest('hex');
    },
  });
  // With a digest that fits: written wrong, or changed together with the manifest.
  const garbage = useState(Buffer.from('no state at all'));
  await refused('E_IMAGE_CORRUPT', /^kfd-state-0\.img: /, garbage.damage, garbage.bend);
  const other = useState(readFileSync(join(images, 'state-sample.img')));
  await refused('E_IMAGE_CORRUPT', /is that of kfd-state-3/, other.damage, other.bend);
});

test('preflight: another host is refused with every reason', async (t) => {
  const { directory, hostOptions } = await sealedImage(t);
  const root = await bentHost(t, 'two-gpus', { 'proc/sys/kernel/osrelease': '6.1.0\n' });
  await assert.rejects(preflight(directory, {}, { ...hostOptions, root, kfdVersion: '1.16' }), {
    code: 'E_KERNEL_MISMATCH',
    message: /kernel release: .*; kfd version: /,
  });
  const none = join(fixtures, 'sysfs/no-kfd');
  await assert.rejects(preflight(directory, {}, { root: none }), { code: 'E_NO_GPU' });
});

test('preflight: pages files are checked by their index', async (t) => {
  const manifest = sampleManifest();
  const { directory, hostOptions } = await sealedImage(t, (own) => {
    const buffer = { ...manifest.buffers[0], bo_index: 0 };
    const [process] = own.processes;
    assert.ok(process);
    process.num_bos = 1;
    own.buffers.push(buffer as (typeof own.buffers)[number]);
    own.files.push({
      name: 'amdgpu-pages-0-0000.img',
      size: readFileSync(join(images, 'pages-raw.img')).length,
      digest: { algo: 'xxh3-128', hex: native().listPages(join(images, 'pages-raw.img')).root },
    });
  });
  const pages = join(directory, 'amdgpu-pages-0-0000.img');
  await cp(join(images, 'pages-raw.img'), pages);
  // Its index is sound, so this goes as far as comparing buffers with the state.
  await assert.rejects(preflight(directory, {}, hostOptions), {
    message: /^kfd-state-0\.img: fewer/,
  });
  await writeFile(pages, flipped(await readFile(pages)));
  await assert.rejects(preflight(directory, {}, hostOptions), {
    code: 'E_IMAGE_CORRUPT',
    message: /^amdgpu-pages-0-0000\.img: /,
  });
});

test('preflight: every BO with contents has its buffer, and no other', () => {
  const summary = native().stateSummary(readFileSync(join(images, 'state-sample.img')));
  const process = { ordinal: 3, state: Buffer.alloc(0), summary, renderStates: [] };
  const manifest = () => {
    const buffers = summary.bos.map(({ size, kind }, index) => ({
      id: index,
      process: 3,
      bo_index: index,
      gpu: 0,
      size,
      kind: kind as 'vram' | 'gtt',
      pages_file: 'amdgpu-pages-3-0000.img',
    }));
    return { ...sampleManifest(), buffers };
  };
  assert.doesNotThrow(() => checkBuffers(manifest(), process));
  const bent = (bend: (buffers: Manifest['buffers']) => void) => {
    const document = manifest();
    bend(document.buffers);
    assert.throws(() => checkBuffers(document, process), { code: 'E_IMAGE_CORRUPT' });
  };
  bent((buffers) => buffers.pop());
  bent((buffers) => Object.assign(buffers[0] ?? {}, { size: 4096 }));
  bent((buffers) => Object.assign(buffers[0] ?? {}, { kind: 'gtt' }));
  bent((buffers) => Object.assign(buffers[1] ?? {}, { process: 2 }));
  const doorbells = { ...summary, bos: summary.bos.map((bo) => ({ ...bo, kind: 'doorbell' })) };
  assert.throws(
    () => checkBuffers(manifest(), { ...process, summary: doorbells as StateSummary }),
    { code: 'E_IMAGE_CORRUPT' },
  );
});
