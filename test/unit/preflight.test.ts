import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { cp, mkdir, readFile, unlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { KfdError } from '../../src/errors.js';
import { readHost } from '../../src/gpu/host.js';
import { writeManifest } from '../../src/manifest/image.js';
import type { Manifest } from '../../src/manifest/schema.js';
import { native, type StateSummary } from '../../src/native.js';
import { composeManifest } from '../../src/session/dump/compose-manifest.js';
import {
  checkBuffers,
  checkExchange,
  checkOrder,
  type PreparedRender,
  preflight,
} from '../../src/session/restore/preflight.js';
import { dumped, kfdVersion, manifestFacts } from './dumped.js';
import { sampleManifest } from './manifest-sample.js';
import { fixtures, temporaryFolder } from './paths.js';
import { bentHost } from './sysfs-tree.js';

const images = join(fixtures, 'image-v1');

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
  await refused('E_IMAGE_CORRUPT', /belongs to kfd-state-3/, other.damage, other.bend);
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

test('preflight: differences that the operator ignores are told, and are no reason', async (t) => {
  const driver = { version: '6.16.6' };
  const { directory, hostOptions } = await sealedImage(t, ({ host }) => {
    Object.assign(host, { driver });
  });
  await assert.rejects(preflight(directory, {}, hostOptions), {
    code: 'E_KERNEL_MISMATCH',
    message: /^amdgpu version: recorded as 6\.16\.6, is none here/,
  });
  const plan = await preflight(directory, { ignore_mismatch: ['driver'] }, hostOptions);
  assert.deepEqual(
    plan?.ignored.map(({ difference }) => difference),
    ['driver'],
  );
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

test('preflight: what pages files take from each other must be there', async (t) => {
  const [first] = sampleManifest().buffers;
  const { directory, hostOptions } = await sealedImage(t, (own) => {
    const [process] = own.processes;
    assert.ok(process && first);
    process.num_bos = 2;
    for (const [gpu, fixture] of ['pages-shared.img', 'pages-sibling.img'].entries()) {
      const path = join(images, fixture);
      const name = `amdgpu-pages-0-000${gpu}.img`;
      own.buffers.push({ ...first, id: gpu, bo_index: gpu, gpu, pages_file: name });
      own.files.push({
        name,
        size: readFileSync(path).length,
        digest: { algo: 'xxh3-128', hex: native().listPages(path).root },
      });
    }
  });
  const place = (gpu: number) => join(directory, `amdgpu-pages-0-000${gpu}.img`);
  await cp(join(images, 'pages-shared.img'), place(0));
  await cp(join(images, 'pages-sibling.img'), place(1));
  // Sound, so this goes as far as comparing buffers with the state.
  await assert.rejects(preflight(directory, {}, hostOptions), { message: /^kfd-state-0\.img: f/ });
  const other = await sealedImage(t, (own) => {
    const [process] = own.processes;
    assert.ok(process && first);
    process.num_bos = 1;
    const path = join(images, 'pages-sibling.img');
    own.buffers.push({ ...first, bo_index: 0 });
    own.files.push({
      name: first.pages_file,
      size: readFileSync(path).length,
      digest: { algo: 'xxh3-128', hex: native().listPages(path).root },
    });
  });
  await cp(join(images, 'pages-sibling.img'), join(other.directory, first?.pages_file ?? ''));
  await assert.rejects(preflight(other.directory, {}, other.hostOptions), {
    code: 'E_IMAGE_CORRUPT',
    message: /^amdgpu-pages-1-0003\.img: refers to frame 1 of amdgpu-pages-1-0002\.img: that file/,
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

test('preflight: processes that would wait for each other are no checkpoint', () => {
  const summary = native().stateSummary(readFileSync(join(images, 'state-sample.img')));
  const held = { firstBo: 2, bos: 1 } as PreparedRender;
  const processes = [0, 1].map((ordinal) => {
    return { ordinal, state: Buffer.alloc(0), summary, renderStates: [held] };
  });
  const sharing = (...shares: readonly (readonly [number, number, number])[]) => ({
    ...sampleManifest(),
    // Each process owns a BO of KFD's and one of its render file.
    buffers: [0, 1].flatMap((process) =>
      [0, 2].map((bo_index) => ({ id: process * 10 + bo_index, process, bo_index })),
    ) as unknown as Manifest['buffers'],
    shares: shares.map(([process, bo_index, buffer]) => ({ process, bo_index, buffer })),
  });
  const judged = (manifest: Manifest) => () => checkOrder(manifest, processes);
  assert.doesNotThrow(judged(sharing([1, 3, 0], [0, 3, 10])));
  assert.doesNotThrow(judged(sharing([1, 3, 2])));
  assert.throws(judged(sharing([1, 3, 2], [0, 3, 12])), {
    code: 'E_IMAGE_CORRUPT',
    message: /^kfd-state-1\.img, kfd-state-0\.img: share buffers/,
  });
  assert.throws(judged(sharing([1, 1, 12])), { message: /^kfd-state-1\.img: share buffers/ });
});

test('preflight: shared buffers of KFD need private data of a known layout', () => {
  const state = readFileSync(join(images, 'state-sample.img'));
  const process = { ordinal: 3, state, summary: native().stateSummary(state), renderStates: [] };
  const sharing = (bo_index: number): Manifest => ({
    ...sampleManifest(),
    shares: [{ process: 3, bo_index, buffer: 0 }],
  });
  assert.doesNotThrow(() => checkExchange(sampleManifest(), process));
  // Its private data is noise.
  assert.throws(() => checkExchange(sharing(2), process), {
    code: 'E_UNSUPPORTED_STATE',
    message: /^kfd-state-3\.img: KFD state: its private data has a layout that is not known here/,
  });
  // BOs of render files are in no private data.
  assert.doesNotThrow(() => checkExchange(sharing(process.summary.bos.length), process));
});
