import assert from 'node:assert/strict';
import fs, { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { link } from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';
import { mock, type TestContext, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { verifyCheckpoint } from '../../src/archive/verify.js';
import { nativeServices } from '../../src/cli/native-services.js';
import { entriesOf, tarOf } from './archive-builder.js';
import { cli, fakeNative } from './cli-context.js';
import {
  buffers,
  checkpointFiles,
  childParts,
  content,
  describeFiles,
  names,
  type Parts,
  soundParts,
} from './forged-image.js';
import { pagesFile } from './forged-pages.js';
import { temporaryFolder } from './paths.js';
import { bentHost } from './sysfs-tree.js';

const native = { ...nativeServices, kfdVersion: fakeNative.kfdVersion };

async function tar(parts: Parts): Promise<Buffer> {
  return tarOf(entriesOf(checkpointFiles(parts)));
}

/** base.tar and delta.tar, which refers to it, in a folder. */
async function pair(t: TestContext, bend: (base: Parts, delta: Parts) => void = () => undefined) {
  const folder = await temporaryFolder(t);
  const base = soundParts();
  const delta = childParts(base);
  bend(base, delta);
  const at = (name: string) => join(folder, name);
  writeFileSync(at('base.tar'), await tar(base));
  writeFileSync(at('delta.tar'), await tar(delta));
  return {
    at,
    flatten: () => cli(['flatten', '--quiet', at('delta.tar'), '-o', at('flat.tar')], { native }),
  };
}

test('a child and its parent are sound, and so is what flatten makes of them', async (t) => {
  const { at, flatten } = await pair(t);
  const { code, stderr } = await flatten();
  assert.equal(code, 0, stderr);
  const options = { zstdDecoder: native.zstdDecoder, verifier: native.verifier() };
  const { files, problems } = await verifyCheckpoint(at('flat.tar'), options);
  assert.deepEqual([...problems, ...files.flatMap((file) => file.problems)], []);
});

/** A sound file with the same buffers and other contents. */
function otherContents(parent?: string): Buffer {
  const [first, ...others] = buffers[0] ?? [];
  const frames = [{ raw: content(9) }, ...(first?.frames.slice(1) ?? [])];
  return pagesFile({ buffers: [{ id: 0, frames }, ...others], ...(parent && { parent }) }).file;
}

const swaps: readonly [string, RegExp, (base: Parts, delta: Parts) => void][] = [
  [
    'of the child',
    /amdgpu-pages-0-0000\.img: its index does not match the digest in the manifest/,
    (_, { files, manifest }) =>
      void files.set(names.first, otherContents(manifest.parent?.files[0]?.root)),
  ],
  [
    'without a parent',
    /amdgpu-pages-0-0001\.img: its index does not match/,
    (_, { files }) =>
      void files.set(
        names.second,
        pagesFile({ gpu: 1, buffers: [{ id: 2, frames: [{ raw: content(9) }] }] }).file,
      ),
  ],
  [
    'of the parent',
    /amdgpu-pages-0-0000\.img: (its index does not match|is \d+ bytes)/,
    ({ files }) => void files.set(names.first, otherContents()),
  ],
];

for (const [whose, reason, swap] of swaps) {
  test(`a sound pages file ${whose} that is not the manifest's is refused`, async (t) => {
    const { at, flatten } = await pair(t, (base, delta) => {
      swap(base, delta);
      // So the size tells nothing.
      for (const { manifest, files } of [base, delta]) {
        for (const file of manifest.files) file.size = files.get(file.name)?.length ?? 0;
      }
    });
    const flat = await flatten();
    assert.equal(flat.code, 5, flat.stderr);
    assert.match(flat.stderr, reason);
    assert.ok(!existsSync(at('flat.tar')));
    let started = false;
    const root = await bentHost(t, 'two-gpus', {});
    const args = [
      'restore',
      '--quiet',
      '--root',
      root,
      '--parent',
      at('base.tar'),
      at('delta.tar'),
    ];
    const restored = await cli(args, {
      native,
      runThrough: async () => {
        started = true;
        return 0;
      },
    });
    assert.equal(restored.code, 5, restored.stderr);
    assert.match(restored.stderr, reason);
    assert.ok(!started, 'podman was called');
  });
}

test('a pages file of another GPU or with other buffers is refused, whatever its manifest says', async (t) => {
  const foreign = await pair(t, (_, delta) => {
    delta.files.set(names.second, pagesFile({ gpu: 0, buffers: buffers[1] ?? [] }).file);
    const { parent, features } = delta.manifest;
    describeFiles(delta);
    Object.assign(delta.manifest, { parent, features });
  });
  const { code, stderr } = await foreign.flatten();
  assert.equal(code, 5, stderr);
  assert.match(stderr, /amdgpu-pages-0-0001\.img: belongs to another process or GPU/);
  const renamed = await pair(t, (_, { manifest }) => {
    Object.assign(manifest.buffers[2] as object, { id: 99 });
  });
  const other = await renamed.flatten();
  assert.equal(other.code, 5, other.stderr);
  assert.match(other.stderr, /amdgpu-pages-0-0001\.img: buffer 2 is not in the manifest/);
});

test('an archive that is its own ancestor is refused, also under another name', async (t) => {
  const { at, flatten } = await pair(t, (_, { manifest }) => {
    const own = manifest.files.find(({ name }) => name === names.first)?.digest.hex ?? '';
    manifest.parent = { archive: 'again.tar', files: [{ name: names.first, root: own }] };
  });
  await link(at('delta.tar'), at('again.tar'));
  const { code, stderr } = await flatten();
  assert.equal(code, 5, stderr);
  assert.match(stderr, /again\.tar: is its own ancestor/);
});

test('a wrong parent is refused before anything is unpacked', async (t) => {
  const { at } = await pair(t, ({ manifest }) => {
    for (const file of manifest.files) {
      if (file.digest.algo === 'xxh3-128') file.digest.hex = '0'.repeat(32);
    }
  });
  for (const name of ['base.tar', 'delta.tar'])
    writeFileSync(at(name), gzipSync(readFileSync(at(name))));
  const made = mock.method(fs, 'createWriteStream');
  syncBuiltinESMExports();
  t.after(() => {
    mock.restoreAll();
    syncBuiltinESMExports();
  });
  const { code, stderr } = await cli(
    ['flatten', '--quiet', at('delta.tar'), '-o', at('flat.tar')],
    { native },
  );
  assert.equal(code, 4, stderr);
  assert.match(stderr, /is not the parent/);
  assert.equal(made.mock.callCount(), 0);
});

test('flatten syncs the data of the archive before it has its name', async (t) => {
  const steps: string[] = [];
  for (const name of ['fsyncSync', 'renameSync'] as const) {
    const original = fs[name] as (...args: unknown[]) => void;
    mock.method(fs, name, (...args: unknown[]) => {
      steps.push(name);
      original(...args);
    });
  }
  syncBuiltinESMExports();
  t.after(() => {
    mock.restoreAll();
    syncBuiltinESMExports();
  });
  const { flatten } = await pair(t);
  const { code, stderr } = await flatten();
  assert.equal(code, 0, stderr);
  assert.deepEqual(steps, ['fsyncSync', 'renameSync']);
});

test('flatten leaves files of others alone when it fails', async (t) => {
  const { at, flatten } = await pair(t);
  const theirs = `${at('flat.tar')}.${process.pid}.tmp`;
  writeFileSync(theirs, 'theirs');
  const { code } = await flatten();
  assert.equal(code, 1);
  assert.equal(readFileSync(theirs, 'utf8'), 'theirs');
  assert.ok(!existsSync(at('flat.tar')));
});

test('without room for the parents nothing is unpacked', async (t) => {
  const { at, flatten } = await pair(t);
  for (const name of ['base.tar', 'delta.tar']) {
    writeFileSync(at(name), gzipSync(readFileSync(at(name))));
  }
  mock.method(fs.promises, 'statfs', async () => ({ bavail: 10, bsize: 4096 }));
  const made = mock.method(fs, 'createWriteStream');
  syncBuiltinESMExports();
  t.after(() => {
    mock.restoreAll();
    syncBuiltinESMExports();
  });
  const { code, stderr } = await flatten();
  assert.equal(code, 1, stderr);
  assert.match(stderr, /no room for the GPU contents: needs \d+ bytes, 40960 are free/);
  assert.equal(made.mock.callCount(), 0);
});
