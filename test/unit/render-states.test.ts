/** Images with render files that hold something: what is prepared for a restore, and what verify finds. */

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { cp, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { boKinds } from '../../src/addon/images.js';
import { verifyCheckpoint } from '../../src/archive/verify.js';
import type { KfdError } from '../../src/errors.js';
import { readHost } from '../../src/gpu/host.js';
import { encodeManifest } from '../../src/manifest/codec.js';
import { writeManifest } from '../../src/manifest/image.js';
import { native } from '../../src/native.js';
import { withRenderBos } from '../../src/session/buffers/process-bos.js';
import { composeManifest } from '../../src/session/dump/compose-manifest.js';
import type { DumpedProcess } from '../../src/session/dump/process.js';
import { preflight } from '../../src/session/restore/preflight.js';
import { entriesOf, fakeVerifier, gpuCheckpoint, tarOf, zstdProgram } from './archive-builder.js';
import { fixtures, temporaryFolder } from './paths.js';
import { bentHost } from './sysfs-tree.js';

const images = join(fixtures, 'image-v1');
const renderState = readFileSync(join(images, 'render-state-sample.img'));
const hostOptions = async (t: TestContext) => ({
  root: await bentHost(t, 'two-gpus', {}),
  kfdVersion: '1.17',
});
const closed = { fd: -1, close() {} };

test('a render state is summed up', () => {
  assert.deepEqual(native().renderStateSummary(renderState), {
    ordinal: 5,
    contexts: 3,
    boLists: 2,
    mappings: 3,
    bos: [
      { handle: 2, size: 0x10000, kind: 'vram', mmapOffset: 0x1_0000_0000n },
      { handle: 3, size: 0x200000, kind: 'handle' },
      { handle: 9, size: 0x3000, kind: 'vram', mmapOffset: 0x1_0030_0000n },
    ],
  });
  assert.throws(() => native().renderStateSummary(renderState.subarray(1)), {
    code: 'KFD_CORRUPT',
  });
});

/** A process without KFD, whose state has one GPU and no BOs. */
function rendering(state: Buffer): DumpedProcess {
  const summary = {
    ordinal: 0,
    nsPid: 7,
    numObjects: 0,
    privBytes: 0,
    vmas: 0,
    devices: [{ userGpuId: 51966, actualGpuId: 51966, renderVmas: 0 }],
    bos: [],
  };
  const held = { gpuId: 51966, summary: native().renderStateSummary(renderState) };
  return {
    ordinal: 0,
    pid: 4711,
    comm: 'render',
    pidfd: closed,
    state,
    summary: withRenderBos(summary, [held]),
    renderFiles: [
      { number: 4, minor: 128, carriesKfd: false },
      { number: 5, minor: 128, carriesKfd: false, state: renderState },
    ],
    dmabufs: new Map(),
  };
}

test('the manifest of a process without KFD names what its render files hold', async (t) => {
  const host = await readHost(await hostOptions(t));
  const process = rendering(Buffer.from('state'));
  const manifest = composeManifest({
    host,
    processes: [process],
    extFiles: [
      { criu_id: 3, kind: 'drm', process: 0, gpu: 0 },
      { criu_id: 4, kind: 'drm', process: 0, gpu: 0, render_state: 'render-state-5.img' },
    ],
    dmabufFiles: [],
    drained: [],
    shares: [],
    parent: undefined,
    detached: false,
    timings: {},
    nodes: new Set<number>(),
  });
  assert.equal(manifest.processes[0]?.num_bos, 3);
  assert.deepEqual(manifest.files[1], {
    name: 'render-state-5.img',
    size: renderState.length,
    digest: { algo: 'sha256', hex: createHash('sha256').update(renderState).digest('hex') },
  });
  assert.doesNotThrow(() => encodeManifest(manifest));
});

test('preflight: a render state is checked, and its buffers must be in the manifest', async (t) => {
  const directory = join(await temporaryFolder(t), 'image');
  await mkdir(directory);
  const options = await hostOptions(t);
  const state = readFileSync(join(images, 'state-empty.img'));
  await cp(join(images, 'state-empty.img'), join(directory, 'kfd-state-0.img'));
  const path = join(directory, 'render-state-5.img');
  const manifest = composeManifest({
    host: await readHost(options),
    processes: [rendering(state)],
    extFiles: [{ criu_id: 4, kind: 'drm', process: 0, gpu: 0, render_state: 'render-state-5.img' }],
    dmabufFiles: [],
    drained: [],
    shares: [],
    parent: undefined,
    detached: false,
    timings: {},
    nodes: new Set<number>(),
  });
  await writeManifest(directory, manifest);
  const refusal = async () => {
    const error = await preflight(directory, {}, options).catch((e: KfdError) => e);
    return (error as KfdError).message;
  };
  assert.match(await refusal(), /^render-state-5\.img: not in the image/);
  await writeFile(
    path,
    Buffer.concat([renderState.subarray(0, -1), Buffer.of((renderState.at(-1) ?? 0) ^ 1)]),
  );
  assert.match(await refusal(), /^render-state-5\.img: does not match its digest/);
  await writeFile(path, renderState);
  // The state of the fixture has no GPU: the render file is on none that its process knows.
  assert.match(await refusal(), /^render-state-5\.img: process 0 has no GPU 0/);
});

test('verify: BOs of render files count behind those of KFD', async (t) => {
  const { files, manifest } = gpuCheckpoint();
  const folder = await temporaryFolder(t);
  const name = 'render-state-2.img';
  const bytes = Buffer.from(`RENDER 2 65536 ${boKinds.indexOf('handle')}`);
  const hex = createHash('sha256').update(bytes).digest('hex');
  const bent = structuredClone(manifest) as typeof manifest & { files: unknown[] };
  Object.assign(bent.processes[0] ?? {}, { num_bos: 25 });
  bent.ext_files.push({
    criu_id: 77,
    kind: 'drm',
    process: 0,
    gpu: 0,
    render_state: name,
  } as never);
  bent.files.push({ name, size: bytes.length, digest: { algo: 'sha256', hex } } as never);
  const problems = async (content: string, extra: object = {}) => {
    const all = {
      ...files,
      'checkpoint/kfd-manifest.json': encodeManifest(bent),
      [`checkpoint/${name}`]: content,
      ...extra,
    };
    const path = join(folder, 'c.tar');
    await writeFile(path, await tarOf(entriesOf(all)));
    const report = await verifyCheckpoint(path, {
      zstdDecoder: zstdProgram,
      verifier: fakeVerifier,
    });
    return report.files.flatMap(({ name: file, problems: found }) =>
      found.map((problem) => `${file}: ${problem}`),
    );
  };
  assert.deepEqual(await problems(bytes.toString()), []);
  const damaged = await problems('RENDER 2');
  assert.ok(damaged.some((problem) => /^render-state-2\.img: .*wrong checksum/.test(problem)));
  assert.ok(damaged.some((problem) => /^kfd-state-0\.img: number of BOs is 24/.test(problem)));
});
