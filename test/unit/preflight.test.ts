import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { cp, mkdir, readFile, unlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { boKinds } from '../../src/addon/images.js';
import type { KfdError } from '../../src/errors.js';
import { readHost } from '../../src/gpu/host.js';
import { boFault, buffersOfBos } from '../../src/manifest/buffers.js';
import { writeManifest } from '../../src/manifest/image.js';
import type { Manifest } from '../../src/manifest/schema.js';
import { native } from '../../src/native.js';
import { composeManifest } from '../../src/session/dump/compose-manifest.js';
import { checkOrder, preflight } from '../../src/session/restore/preflight.js';
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

test('every BO with contents has its buffer, and no other', () => {
  const { bos } = native().stateFacts(readFileSync(join(images, 'state-sample.img')));
  const document = (): Manifest => ({
    ...sampleManifest(),
    buffers: Array.from(bos.sizes, (size, index) => ({
      id: index,
      process: 3,
      bo_index: index,
      gpu: 0,
      size,
      kind: boKinds[bos.kinds[index] ?? -1] as 'vram' | 'gtt',
      pages_file: 'amdgpu-pages-3-0000.img',
    })),
  });
  const faultOf = (manifest: Manifest, of = bos) =>
    boFault(of, buffersOfBos(manifest).get(3) ?? new Map());
  assert.equal(faultOf(document()), undefined);
  const bent = (bend: (buffers: Manifest['buffers']) => void) => {
    const manifest = document();
    bend(manifest.buffers);
    return faultOf(manifest) ?? '';
  };
  assert.match(
    bent((buffers) => buffers.pop()),
    /has contents, the manifest has no buffer for it/,
  );
  assert.match(
    bent((buffers) => Object.assign(buffers[0] ?? {}, { size: 5 })),
    /BO 0 is .* the manifest says vram of 5/,
  );
  assert.match(
    bent((buffers) => Object.assign(buffers[0] ?? {}, { kind: 'gtt' })),
    /BO 0 is vram/,
  );
  assert.match(
    bent((buffers) => Object.assign(buffers[1] ?? {}, { process: 2 })),
    /BO 1 has/,
  );
  const doorbells = bos.kinds.map(() => boKinds.indexOf('doorbell'));
  assert.match(
    faultOf(document(), { ...bos, kinds: doorbells }) ?? '',
    /BOs with contents are 0, the manifest says/,
  );
});

test('preflight: processes that would wait for each other are no checkpoint', () => {
  const processes = [0, 1].map((ordinal) => ({ ordinal, kfdBos: 2 }));
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
  // Made before: by KFD's state of the same process, by its render file, by another process.
  for (const share of [
    [1, 1, 10],
    [1, 3, 12],
    [1, 1, 2],
  ] as const) {
    assert.doesNotThrow(judged(sharing(share)), String(share));
  }
});
