import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { readFile, stat, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { KfdError } from '../../src/errors.js';
import { type DrainOptions, fromNative, native, type TransferBuffer } from '../../src/native.js';
import { fixtures, temporaryFolder } from './paths.js';
import { received } from './received.js';

const frame = 1 << 20;

/** Contents that do and do not compress, with zeroes and a size that is no multiple of a frame. */
const contents = [
  Buffer.alloc(2 * frame + 4096, 'abcdefgh'),
  Buffer.alloc(frame),
  Buffer.from(Array.from({ length: 8192 }, (_, i) => (i * 2654435761) >>> 24)),
];

/** Files that play dma-bufs for the CPU engine, which only maps them. */
async function buffersOf(
  t: TestContext,
  folder: string,
  name: string,
  bytes: readonly Buffer[],
): Promise<TransferBuffer[]> {
  const paths = bytes.map((_, index) => join(folder, `${name}-${index}`));
  await Promise.all(paths.map((path, index) => writeFile(path, bytes[index] as Buffer)));
  const dmabufs = await received(t, paths);
  return dmabufs.map((dmabuf, i) => ({ id: i + 7, size: bytes[i]?.length ?? 0, dmabuf }));
}

const engine = {
  renderNode: '/dev/dri/renderD128',
  engine: 'cpu',
  slots: 4,
  slotBytes: frame,
  workers: 2,
} as const;

function startDrain(
  path: string,
  buffers: readonly TransferBuffer[],
  compress: DrainOptions['compress'] = 'none',
) {
  return new (native().TransferJob)({
    ...engine,
    operation: 'drain',
    path,
    process: 3,
    gpu: 1,
    compress,
    zstdLevel: 1,
    buffers,
  });
}

function startUpload(path: string, buffers: readonly TransferBuffer[]) {
  return new (native().TransferJob)({ ...engine, operation: 'upload', path, buffers });
}

const read = (folder: string, name: string) =>
  contents.map((_, index) => readFileSync(join(folder, `${name}-${index}`)));

for (const compress of ['none', 'auto', 'lz4', 'zstd'] as const) {
  test(`contents drained with compress "${compress}" come back byte for byte`, async (t) => {
    const folder = await temporaryFolder(t);
    const pages = join(folder, 'pages.img');
    const job = startDrain(pages, await buffersOf(t, folder, 'from', contents), compress);
    const total = contents.reduce((sum, { length }) => sum + length, 0);
    const drained = await job.done;
    assert.equal(job.progress(), total);
    assert.equal(drained.bytes, total);
    assert.equal(drained.contentBytes, total);
    assert.equal(drained.engine, 'cpu');
    assert.equal(drained.frames, 5);
    assert.equal(drained.zeroFrames, 1);
    const { size, mode } = await stat(pages);
    assert.equal(drained.fileBytes, size);
    assert.equal(mode & 0o777, 0o600);
    // The two full frames of the first buffer are equal.
    if (compress === 'none') assert.ok(size > frame && size < 2 * frame);
    else if (compress !== 'auto') assert.ok(size < total / 2);

    const { root, frames } = native().listPages(pages);
    assert.deepEqual({ root, frames }, { root: drained.root, frames: drained.frames });
    const check = new (native().PagesCheck)();
    const bytes = await readFile(pages);
    for (let at = 0; at < bytes.length; at += 77_777) check.feed(bytes.subarray(at, at + 77_777));
    const checked = check.finish();
    assert.equal(checked.root, drained.root);
    assert.deepEqual([checked.process, checked.gpu, checked.bufferIds.length], [3, 1, 3]);

    const rubbish = contents.map(({ length }) => Buffer.alloc(length, 0xee));
    const into = await buffersOf(t, folder, 'to', rubbish);
    const uploaded = await startUpload(pages, into).done;
    assert.equal(uploaded.bytes, total);
    assert.equal(uploaded.root, drained.root);
    read(folder, 'to').forEach((content, i) => {
      assert.ok(content.equals(contents[i] as Buffer), `buffer ${i}`);
    });
  });
}

test('a job lives until it is done, also when only its promise is kept', async (t) => {
  const folder = await temporaryFolder(t);
  const large = await buffersOf(t, folder, 'large', [Buffer.alloc(0)]);
  const size = 512 * frame;
  await truncate(join(folder, 'large-0'), size);
  const { done } = startDrain(
    join(folder, 'pages.img'),
    large.map((buffer) => ({ ...buffer, size })),
  );
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  for (let i = 0; i < 3; i++) {
    collect();
    await nextTurn(); // finalizers run in one of their own
  }
  assert.equal((await done).bytes, size);
});

/** A drained file, and buffers to upload it into. */
async function drained(t: TestContext) {
  const folder = await temporaryFolder(t);
  const pages = join(folder, 'pages.img');
  const from = await buffersOf(t, folder, 'from', contents);
  await startDrain(pages, from).done;
  return { folder, pages, from };
}

test('a changed frame is found while it is uploaded', async (t) => {
  const { pages, from } = await drained(t);
  const bytes = await readFile(pages);
  const at = bytes.indexOf('abcdefghabcdefgh') + 5000;
  bytes[at] = (bytes[at] ?? 0) ^ 0x40;
  await writeFile(pages, bytes);
  // The index does not show it.
  assert.ok(native().listPages(pages).root);
  const failure = await startUpload(pages, from).done.then(
    () => undefined,
    (error: unknown) => fromNative(error, 'pages.img'),
  );
  assert.ok(failure instanceof KfdError);
  assert.equal(failure.code, 'E_IMAGE_CORRUPT');
  assert.match(failure.message, /^pages\.img: /);
  const check = new (native().PagesCheck)();
  assert.throws(
    () => {
      check.feed(bytes);
      check.finish();
    },
    { code: 'KFD_CORRUPT' },
  );
});

test('a cut file, a buffer it lacks and a wrong size are refused', async (t) => {
  const { pages, from } = await drained(t);
  const stranger = from.map((buffer, i) => (i === 0 ? { ...buffer, id: 99 } : buffer));
  await assert.rejects(startUpload(pages, stranger).done, { code: 'KFD_CORRUPT' });
  const resized = from.map((buffer, i) => (i === 0 ? { ...buffer, size: frame } : buffer));
  await assert.rejects(startUpload(pages, resized).done, { code: 'KFD_CORRUPT' });
  await assert.rejects(startDrain(pages, from).done, { code: 'KFD_IO', errno: 17 });
  await truncate(pages, (await stat(pages)).size - 1);
  await assert.rejects(startUpload(pages, from).done, { code: 'KFD_CORRUPT' });
  assert.throws(() => native().listPages(pages), { code: 'KFD_CORRUPT' });
  assert.throws(() => native().listPages('/nowhere'), { code: 'KFD_IO', errno: 2 });
});

test('a job can be cancelled, and holds copies of its descriptors', async (t) => {
  const folder = await temporaryFolder(t);
  const path = join(folder, 'from-0');
  await writeFile(path, '');
  await truncate(path, 8 * 2 ** 30);
  const [dmabuf] = await received(t, [path]);
  assert.ok(dmabuf);
  const job = startDrain(join(folder, 'pages.img'), [{ id: 0, size: 8 * 2 ** 30, dmabuf }]);
  dmabuf.close();
  job.cancel();
  await assert.rejects(job.done, (error: unknown) => {
    return fromNative(error, 'x').code === 'E_CANCELLED';
  });
  assert.ok(job.progress() < 8 * 2 ** 30);
});

test('the SDMA engine without a GPU fails by name and before it has begun', async (t) => {
  const folder = await temporaryFolder(t);
  const buffers = await buffersOf(t, folder, 'from', contents);
  const options = {
    ...engine,
    renderNode: '/nowhere/renderD128',
    operation: 'drain',
    process: 0,
    gpu: 0,
    compress: 'none',
    zstdLevel: 1,
    buffers,
  } as const;
  const start = (which: 'cpu' | 'sdma') =>
    new (native().TransferJob)({ ...options, engine: which, path: join(folder, 'pages') }).done;
  await assert.rejects(start('sdma'), {
    code: 'KFD_ENGINE',
    message: 'SDMA: /nowhere/renderD128: No such file or directory',
  });
  assert.equal((await start('cpu')).engine, 'cpu');
  assert.throws(() => void start('auto' as 'cpu'), TypeError);
});

test('buffers behind dma-bufs: what is no render node is told from what is not there', () => {
  const memory = native().memfd(Buffer.alloc(4096));
  assert.throws(() => native().buffersBehind('/dev/null', [memory]), {
    code: 'KFD_GPU',
    message: /^PRIME_FD_TO_HANDLE: /,
  });
  assert.throws(() => native().buffersBehind('/dev/dri/none', [memory]), { code: 'KFD_IO' });
  assert.deepEqual(native().buffersBehind('/dev/null', []), []);
  memory.close();
});

test('wrong options are a TypeError, not a crash', () => {
  const { TransferJob, Listener } = native();
  const Any = TransferJob as unknown as new (options?: unknown) => unknown;
  const good = { ...engine, operation: 'upload', path: '/x', buffers: [] };
  for (const bad of [
    undefined,
    7,
    {},
    { ...good, slots: -1 },
    { ...good, slotBytes: 2 ** 40 },
    { ...good, buffers: [7] },
    { ...good, buffers: [{ id: 0, size: 1.5, dmabuf: {} }] },
    { ...good, buffers: [{ id: 0, size: 1, dmabuf: {} }] },
  ]) {
    assert.throws(() => new Any(bad), TypeError, JSON.stringify(bad));
  }
  const L = Listener as unknown as new (path: unknown, onMessage?: unknown) => unknown;
  assert.throws(() => new L('/tmp/x', 7), TypeError);
  assert.throws(() => new L(`/tmp/${'x'.repeat(200)}`, () => {}), { code: 'KFD_IO' });
});

test('a state for this host keeps everything but the GPU ids', () => {
  const bytes = readFileSync(join(fixtures, 'image-v1/state-sample.img'));
  const before = native().stateSummary(bytes);
  const memfd = native().stateForRestore(bytes, [11, 12], []);
  const after = native().stateSummary(readFileSync(`/proc/self/fd/${memfd.fd}`));
  memfd.close();
  assert.equal(memfd.fd, -1);
  assert.deepEqual(after, {
    ...before,
    devices: before.devices.map((device, i) => ({ ...device, actualGpuId: 11 + i })),
  });
  assert.throws(() => native().stateForRestore(bytes, [11], []), { code: 'KFD_UNSUPPORTED' });
  assert.throws(() => native().stateSummary(bytes.subarray(1)), { code: 'KFD_CORRUPT' });
  assert.throws(() => native().stateSummary('x' as unknown as Buffer), TypeError);
});
