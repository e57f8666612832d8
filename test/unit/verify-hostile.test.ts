import assert from 'node:assert/strict';
import { readFileSync, truncateSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { ImageVerifier } from '../../src/archive/verifier.js';
import { verifyCheckpoint } from '../../src/archive/verify.js';
import { nativeServices } from '../../src/cli/native-services.js';
import { native } from '../../src/native.js';
import { zstdProgram } from './archive-builder.js';
import {
  buffers,
  content,
  describeFiles,
  imageFiles,
  names,
  type Parts,
  soundParts,
} from './forged-image.js';
import { pagesFile } from './forged-pages.js';
import { renderStateFile, stateFile } from './forged-state.js';
import { fixtures, temporaryFolder } from './paths.js';

/** Writes an image directory, and returns its path. */
async function written(t: TestContext, parts: Parts): Promise<string> {
  const directory = join(await temporaryFolder(t), 'image');
  await mkdir(directory);
  for (const [name, bytes] of Object.entries(imageFiles(parts))) {
    await writeFile(join(directory, name), bytes);
  }
  return directory;
}

async function problemsOf(path: string, over: Partial<ImageVerifier> = {}): Promise<string> {
  const verifier = { ...nativeServices.verifier(), ...over };
  const { files, problems } = await verifyCheckpoint(path, { zstdDecoder: zstdProgram, verifier });
  return [
    ...problems,
    ...files.flatMap((file) => file.problems.map((problem) => `${file.name}: ${problem}`)),
  ].join('\n');
}

async function bent(t: TestContext, bend: (parts: Parts) => void): Promise<string> {
  const parts = soundParts();
  bend(parts);
  return problemsOf(await written(t, parts));
}

test('verify: an image with real files of every kind is sound', async (t) => {
  assert.equal(await bent(t, () => undefined), '');
});

test('verify: buffers of a pages file are those of the manifest, each with its size', async (t) => {
  const second = (ids: readonly number[], bytes: number) => (parts: Parts) => {
    const made = ids.map((id) => ({ id, frames: [{ raw: content(4, bytes) }] }));
    parts.files.set(names.second, pagesFile({ gpu: 1, buffers: made }).file);
    describeFiles(parts);
  };
  assert.match(await bent(t, second([9], 1 << 20)), /0001\.img: buffer 9 is not in the manifest/);
  assert.match(await bent(t, second([2], 4096)), /0001\.img: size of buffer 2 is 4096, the/);
  assert.match(await bent(t, second([2, 9], 4096)), /0001\.img: number of buffers is 2, the/);
  // The sum of the sizes says nothing.
  const swapped = await bent(t, ({ manifest, files }) => {
    const [first, , , last] = manifest.buffers as { size: number }[];
    assert.ok(first && last);
    [first.size, last.size] = [last.size, first.size];
    assert.equal(files.size, 4);
  });
  assert.match(swapped, /0000\.img: size of buffer 0 is 1052672, the manifest says 4096/);
});

test('verify: a BO with contents that the manifest does not know is told', async (t) => {
  const lost = await bent(t, (parts) => {
    const [first] = parts.manifest.buffers;
    assert.ok(first);
    parts.manifest.buffers = parts.manifest.buffers.filter(({ id }) => id !== 3);
    const kept = buffers[0]?.filter(({ id }) => id !== 3) ?? [];
    parts.files.set(names.first, pagesFile({ buffers: kept }).file);
    describeFiles(parts);
  });
  assert.match(lost, /kfd-state-0\.img: BO 4 has contents, the manifest has no buffer for it/);
});

test('verify: references need digests, or nothing says that the parent has the content', async (t) => {
  const found = await bent(t, (parts) => {
    const root = 'ab'.repeat(16);
    const frames = [{ like: content(4), reference: 0 }];
    const made = { gpu: 1, digests: false, parent: root, buffers: [{ id: 2, frames }] };
    parts.files.set(names.second, pagesFile(made).file);
    describeFiles(parts);
    parts.manifest.parent = { archive: 'p', files: [{ name: names.second, root }] };
    parts.manifest.features = { required: ['parent'], optional: [] };
  });
  assert.match(found, /0001\.img: pages file: references without digests/);
});

test('verify: a damaged file with a hole of terabytes is not read to its end', async (t) => {
  const parts = soundParts();
  const directory = await written(t, parts);
  truncateSync(join(directory, names.second), 2 ** 42);
  const start = Date.now();
  assert.match(await problemsOf(directory), /0001\.img: pages file: /);
  assert.ok(Date.now() - start < 10_000);
});

test('verify: what waits for the manifest is bounded over all files', async (t) => {
  const parts = soundParts();
  const columns = { sizes: new Float64Array(1 << 22), kinds: new Uint8Array(1 << 22).fill(3) };
  const many = {
    ...native().stateFacts(parts.files.get(names.state) ?? Buffer.of()),
    bos: columns,
  };
  const found = await problemsOf(await written(t, parts), { stateFacts: () => many });
  assert.match(found, /kfd-state-0\.img: more than can be checked/);
});

test('a check of a pages file holds no memory when it has ended', () => {
  const sound = readFileSync(join(fixtures, 'image-v1/pages-zstd.img'));
  const damaged = Buffer.from(sound);
  damaged[damaged.length - 1] = (damaged.at(-1) ?? 0) ^ 1;
  const before = process.memoryUsage().rss;
  const kept = Array.from({ length: 400 }, (_, i) => {
    const check = new (native().PagesCheck)();
    try {
      check.feed(i % 2 === 0 ? sound : damaged);
      check.finish();
    } catch {
      // Every second one is damaged.
    }
    return check;
  });
  const grown = process.memoryUsage().rss - before;
  assert.ok(grown < 200 << 20, `${grown} bytes for ${kept.length} checks`);
  assert.throws(() => kept[0]?.feed(sound), { code: 'KFD_PROTOCOL' });
});

test('state files are bounded in records and in the size of a BO', () => {
  const bos = Array((1 << 20) + 1).fill({ size: 0, flags: 8 });
  const many = stateFile({ bos });
  const huge = stateFile({ bos: [{ size: 2n ** 60n, flags: 1 }] });
  const corrupt = (message: RegExp) => ({ code: 'KFD_CORRUPT', message });
  for (const read of [native().stateFacts, native().stateSummary]) {
    assert.throws(() => read(many), corrupt(/too many records/));
    assert.throws(() => read(huge), corrupt(/BO larger than any memory/));
  }
  const handles = bos.map((_, i) => ({ handle: i + 1, size: 4096 }));
  const render = renderStateFile({ bos: handles });
  assert.throws(() => native().renderStateFacts(render), corrupt(/too many records/));
});
