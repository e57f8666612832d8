import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { readComplete } from '../../src/archive/completeness.js';
import { readContents } from '../../src/archive/contents.js';
import { plainName } from '../../src/archive/names.js';
import { readWithPlaces } from '../../src/archive/pages-parts.js';
import { verifyCheckpoint } from '../../src/archive/verify.js';
import { encodeManifest } from '../../src/manifest/codec.js';
import {
  entriesOf,
  type Files,
  fakeVerifier,
  gpuCheckpoint,
  inventory,
  plainCheckpoint,
  type TarEntry,
  tarOf,
  unpackTo,
  zstdProgram,
} from './archive-builder.js';
import { temporaryFolder } from './paths.js';

const options = { zstdDecoder: zstdProgram };
const verifyOptions = { ...options, verifier: fakeVerifier };

async function archive(t: TestContext, entries: readonly TarEntry[]): Promise<string> {
  const path = join(await temporaryFolder(t), 'c.tar');
  await writeFile(path, await tarOf(entries));
  return path;
}

async function problemsOf(path: string): Promise<string[]> {
  const report = await verifyCheckpoint(path, verifyOptions);
  return [
    ...report.problems,
    ...report.files.flatMap((file) => file.problems.map((problem) => `${file.name}: ${problem}`)),
  ];
}

test('an archive is read the same plain, gzip and zstd', async (t) => {
  const folder = await temporaryFolder(t);
  const tar = await tarOf(entriesOf(gpuCheckpoint().files));
  await writeFile(join(folder, 'none'), tar);
  await writeFile(join(folder, 'gzip'), gzipSync(tar));
  execFileSync('zstd', ['-q', join(folder, 'none'), '-o', join(folder, 'zstd')]);
  for (const compression of ['none', 'gzip', 'zstd']) {
    const contents = await readContents(join(folder, compression), options);
    assert.equal(contents.compression, compression);
    assert.equal(contents.kind, 'archive');
    assert.deepEqual(contents.manifest, gpuCheckpoint().manifest);
    assert.equal(contents.container?.name, 'trainer');
    assert.equal(contents.container?.engine, 'Podman');
    assert.equal(contents.sizes.memoryPages, 8192);
    assert.equal(contents.sizes.gpuPages, 38);
    assert.equal(contents.sizes.rootfsDiff, 1024);
    assert.equal(contents.imageFiles.get('kfd-state-0.img'), 5);
  }
});

test('a bundle and its image directory are read like the archive', async (t) => {
  const folder = await temporaryFolder(t);
  await unpackTo(folder, gpuCheckpoint().files);
  const bundle = await readContents(folder, options);
  assert.equal(bundle.kind, 'bundle');
  assert.equal(bundle.container?.name, 'trainer');
  assert.equal(bundle.sizes.rootfsDiff, 1024);
  const image = await readContents(join(folder, 'checkpoint'), options);
  assert.equal(image.kind, 'image');
  assert.equal(image.container, undefined);
  assert.deepEqual(image.manifest, bundle.manifest);
  assert.deepEqual(image.imageFiles, bundle.imageFiles);
});

test('a checkpoint without a GPU has no manifest and no files of ours', async (t) => {
  const contents = await readContents(await archive(t, entriesOf(plainCheckpoint())), options);
  assert.equal(contents.manifest, undefined);
  assert.equal(contents.imageFiles.size, 0);
  assert.deepEqual(await problemsOf(contents.path), []);
});

test('what is no checkpoint is refused with a reason', async (t) => {
  const folder = await temporaryFolder(t);
  const refuse = (name: string, expected: object) =>
    assert.rejects(readContents(join(folder, name), options), expected);
  await refuse('missing.tar', { code: 'E_NOT_FOUND' });
  await refuse('', { code: 'E_IMAGE_CORRUPT', message: /neither an image directory/ });
  await writeFile(join(folder, 'text'), 'hello');
  await refuse('text', { code: 'E_IMAGE_CORRUPT', message: /not a tar archive/ });
  await writeFile(join(folder, 'other.tar'), await tarOf([{ name: 'a', data: 'b' }]));
  await refuse('other.tar', { code: 'E_IMAGE_CORRUPT', message: /no CRIU checkpoint\/inventory/ });
  await writeFile(join(folder, 'text.gz'), gzipSync('hello'));
  await refuse('text.gz', { code: 'E_IMAGE_CORRUPT' });
});

test('an archive cut anywhere is damaged, never "without a GPU"', async (t) => {
  const folder = await temporaryFolder(t);
  const tar = await tarOf(entriesOf({ ...plainCheckpoint(), ...gpuCheckpoint().files }));
  const path = join(folder, 'cut');
  for (let length = 512; length < tar.length; length += 512) {
    await writeFile(path, tar.subarray(0, length));
    await assert.rejects(readContents(path, options), { code: 'E_IMAGE_CORRUPT' }, `at ${length}`);
  }
  const gzip = gzipSync(tar);
  for (const length of [20, gzip.length >> 1, gzip.length - 9, gzip.length - 1]) {
    await writeFile(path, gzip.subarray(0, length));
    await assert.rejects(readContents(path, options), { code: 'E_IMAGE_CORRUPT' }, `at ${length}`);
  }
  await writeFile(join(folder, 'plain'), tar);
  execFileSync('zstd', ['-q', join(folder, 'plain'), '-o', join(folder, 'z')]);
  const zstd = execFileSync('zstd', ['-qc', join(folder, 'plain')]);
  await writeFile(path, zstd.subarray(0, zstd.length - 20));
  await assert.rejects(readContents(path, options), { code: 'E_IMAGE_CORRUPT' });
});

test('an archive with a name that leaves it is refused', async (t) => {
  const { files } = gpuCheckpoint();
  const manifest = files['checkpoint/kfd-manifest.json'] ?? '';
  for (const name of [
    '/checkpoint/kfd-manifest.json',
    '../checkpoint/kfd-manifest.json',
    'a/../checkpoint/kfd-manifest.json',
  ]) {
    const path = await archive(t, [...entriesOf(plainCheckpoint()), { name, data: manifest }]);
    await assert.rejects(readContents(path, options), {
      code: 'E_IMAGE_CORRUPT',
      message: /a name that leaves the archive/,
    });
  }
  assert.equal(plainName('./checkpoint//./x.img'), 'checkpoint/x.img');
  assert.equal(plainName('./'), '');
  assert.equal(plainName('a\0b'), undefined);
  assert.equal(plainName('x'.repeat(2000)), undefined);
});

test('a name that comes twice is refused, also in another spelling', async (t) => {
  const twice = [
    ...entriesOf(gpuCheckpoint().files),
    { name: './checkpoint//kfd-manifest.json', data: '{}' },
  ];
  await assert.rejects(readContents(await archive(t, twice), options), {
    code: 'E_IMAGE_CORRUPT',
    message: /kfd-manifest\.json is there twice/,
  });
});

test('links in place of files are not followed', async (t) => {
  const { files } = gpuCheckpoint();
  const rest = Object.fromEntries(
    Object.entries(files).filter(([name]) => !name.endsWith('.json')),
  );
  const link: TarEntry = {
    name: 'checkpoint/kfd-manifest.json',
    type: 'symlink',
    linkname: '/etc/passwd',
  };
  const contents = await readContents(await archive(t, [...entriesOf(rest), link]), options);
  assert.equal(contents.manifest, undefined);
  assert.deepEqual(contents.misplaced, ['checkpoint/kfd-manifest.json']);
  const folder = await temporaryFolder(t);
  await unpackTo(folder, rest);
  await symlink('/etc/passwd', join(folder, 'checkpoint/kfd-manifest.json'));
  const unpacked = await readContents(folder, options);
  assert.equal(unpacked.manifest, undefined);
  assert.deepEqual(unpacked.misplaced, ['checkpoint/kfd-manifest.json']);
});

test('a folder whose name is as long as that of the image is another', async (t) => {
  const { files } = gpuCheckpoint();
  // In front of the image's own files and behind them, and with other bytes.
  const others: Files = {
    'checkpoins/kfd-state-0.img': 'x',
    'checkpoins/amdgpu-pages-0-0000.img': 'y',
    'checkpoins/amdgpu-pages-7-0000.img': 'z',
    'checkpoins/kfd-manifest.json': '{}',
  };
  for (const all of [
    { ...others, ...files },
    { ...files, ...others },
  ]) {
    const path = await archive(t, entriesOf(all));
    assert.deepEqual(await problemsOf(path), []);
    const { contents, problems } = await readComplete(path, options);
    assert.deepEqual(problems, []);
    assert.deepEqual([...contents.imageFiles.values()], [19, 19, 5]);
    assert.equal(contents.sizes.gpuPages, 38);
    const { places } = await readWithPlaces(path, options);
    assert.deepEqual(
      [...places.values()].map(({ size }) => size),
      [19, 19],
    );
  }
});

test('a small file that is not small is refused', async (t) => {
  const big: Files = { ...plainCheckpoint(), 'config.dump': Buffer.alloc((16 << 20) + 1, 32) };
  await assert.rejects(readContents(await archive(t, entriesOf(big)), options), {
    code: 'E_IMAGE_CORRUPT',
    message: /config\.dump: larger than/,
  });
});

test('engine files that are no JSON do not hide the checkpoint', async (t) => {
  const files: Files = {
    'checkpoint/inventory.img': inventory,
    'config.dump': '{',
    'spec.dump': '7',
  };
  const contents = await readContents(await archive(t, entriesOf(files)), options);
  assert.equal(contents.container, undefined);
});

test('an interrupted walk says so', async (t) => {
  const path = await archive(t, entriesOf(gpuCheckpoint().files));
  const signal = AbortSignal.abort();
  await assert.rejects(readContents(path, { ...options, signal }), { code: 'E_CANCELLED' });
});

test('a sound checkpoint has no problems, and every byte is reported', async (t) => {
  const progress = new Map<string, string>();
  const path = await archive(t, entriesOf(gpuCheckpoint().files));
  const report = await verifyCheckpoint(path, {
    ...verifyOptions,
    onProgress: (name, done, total) => progress.set(name, `${done}/${total}`),
  });
  assert.deepEqual(report.problems, []);
  assert.deepEqual(
    report.files.map(({ name, problems, frames }) => [name, problems.length, frames]),
    [
      ['kfd-state-0.img', 0, undefined],
      ['amdgpu-pages-0-0000.img', 0, 2],
      ['amdgpu-pages-0-0001.img', 0, 2],
    ],
  );
  assert.equal(progress.get('amdgpu-pages-0-0000.img'), '19/19');
});

test('each kind of damage is found and named', async (t) => {
  const cases: [RegExp, (files: Files) => void][] = [
    [
      /0-0000\.img: pages file: frame 0/,
      (f) => void Object.assign(f, { 'checkpoint/amdgpu-pages-0-0000.img': 'xxxxx 0 0 2 2101248' }),
    ],
    [
      /0-0000\.img: pages file: cut/,
      (f) => void Object.assign(f, { 'checkpoint/amdgpu-pages-0-0000.img': 'PAGES 0' }),
    ],
    [
      /0-0000\.img: size is 20, the manifest says 19/,
      (f) =>
        void Object.assign(f, { 'checkpoint/amdgpu-pages-0-0000.img': 'PAGES 0 0 2 21012480' }),
    ],
    [
      /0-0000\.img: gpu is 1, the manifest says 0/,
      (f) => void Object.assign(f, { 'checkpoint/amdgpu-pages-0-0000.img': 'PAGES 0 1 2 2101248' }),
    ],
    [
      /0-0000\.img: number of buffers is 3, the manifest says 2/,
      (f) => void Object.assign(f, { 'checkpoint/amdgpu-pages-0-0000.img': 'PAGES 0 0 3 2101248' }),
    ],
    [
      /kfd-state-0\.img: state file: wrong checksum/,
      (f) => void Object.assign(f, { 'checkpoint/kfd-state-0.img': 'STALE' }),
    ],
    [
      /kfd-state-0\.img: sha256 is/,
      (f) => void Object.assign(f, { 'checkpoint/kfd-state-0.img': 'STATE2' }),
    ],
    [/kfd-state-0\.img: missing/, (f) => delete f['checkpoint/kfd-state-0.img']],
    [
      /kfd-state-7\.img: not in the manifest/,
      (f) => void Object.assign(f, { 'checkpoint/kfd-state-7.img': 'STATE' }),
    ],
    [/never finished/, (f) => delete f['checkpoint/kfd-manifest.json']],
  ];
  for (const [expected, damage] of cases) {
    const { files } = gpuCheckpoint();
    damage(files);
    const problems = await problemsOf(await archive(t, entriesOf(files)));
    assert.ok(
      problems.some((problem) => expected.test(problem)),
      `${expected} in ${problems}`,
    );
  }
});

test('a manifest that was sealed over wrong facts is found out by the files', async (t) => {
  const { files, manifest } = gpuCheckpoint();
  Object.assign(manifest.buffers[2] as object, { kind: 'gtt', size: 5 });
  files['checkpoint/kfd-manifest.json'] = encodeManifest(manifest);
  const problems = (await problemsOf(await archive(t, entriesOf(files)))).join('\n');
  assert.match(
    problems,
    /kfd-state-0\.img: BO 5 is vram of 1048576 bytes, the manifest says gtt of 5/,
  );
  assert.match(problems, /0-0001\.img: size of buffer 2 is 1048576, the manifest says 5/);
});
