import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { closeSync, constants, openSync } from 'node:fs';
import { mkdir, open, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { type ContentsSender, native } from '../../src/native.js';
import { temporaryFolder } from './paths.js';

const frame = 1 << 20;
const bytes = 3 * frame + 4096;
const ample = { files: 4, bytes: 1 << 30 };

/** A FIFO with a reader: its descriptor, and its path for the writer. */
async function fifo(t: TestContext) {
  const folder = await temporaryFolder(t);
  const path = join(folder, 'fifo');
  execFileSync('mkfifo', [path]);
  const fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  t.after(() => closeSync(fd));
  const store = join(folder, 'store');
  await mkdir(store);
  return { fd, path, folder, store };
}

/** A buffer of known contents, as a drain takes it. */
async function buffer(t: TestContext, folder: string) {
  const file = await open(join(folder, 'buffer'), 'w+');
  t.after(() => file.close());
  await file.write(Buffer.alloc(bytes, 'contents of a buffer '));
  return { id: 7, size: bytes, dmabuf: native().openDevice(join(folder, 'buffer')) };
}

function drain(
  to: { readonly path: string; readonly stream?: ContentsSender },
  buffers: readonly Awaited<ReturnType<typeof buffer>>[],
  gpu = 1,
) {
  return new (native().TransferJob)({
    ...to,
    operation: 'drain',
    renderNode: '/nowhere',
    engine: 'cpu',
    slots: 2,
    slotBytes: frame,
    workers: 2,
    process: 0,
    gpu,
    compress: 'none',
    zstdLevel: 1,
    buffers,
  });
}

test('contents arrive as the files that a drain writes here', async (t) => {
  const { fd, path, folder, store } = await fifo(t);
  const buffers = [await buffer(t, folder)];
  const stream = new (native().ContentsSender)(path);
  const receiving = native().receiveContents(fd, store, ample);
  const [one] = await Promise.all(
    [1, 2].map((gpu) => drain({ path: join(folder, `${gpu}`), stream }, buffers, gpu).done),
  );
  await stream.finish();
  const { files, bytes: arrived } = await receiving.done;
  assert.deepEqual([files, arrived], [2, stream.bytes()]);
  assert.equal(receiving.progress(), arrived);
  assert.equal(arrived, 2 * (one?.fileBytes ?? 0));
  const names = (await readdir(store)).toSorted();
  assert.deepEqual(names, ['amdgpu-pages-0-0001.img', 'amdgpu-pages-0-0002.img']);
  for (const [i, name] of names.entries()) {
    assert.deepEqual(await readFile(join(store, name)), await readFile(join(folder, `${i + 1}`)));
  }
});

test('a drain with a stream ends when that is stopped', async (t) => {
  const { path, folder } = await fifo(t);
  const stream = new (native().ContentsSender)(path);
  const job = drain({ path: join(folder, 'a'), stream }, [await buffer(t, folder)]);
  const failed = assert.rejects(job.done, { code: 'KFD_CANCELLED' });
  stream.stop();
  await failed;
  assert.throws(() => drain({ path: join(folder, 'b'), stream }, []), /stream: has ended/);
});

test('what is no FIFO with a reader is refused', async (t) => {
  const folder = await temporaryFolder(t);
  const path = join(folder, 'fifo');
  execFileSync('mkfifo', [path]);
  const Sender = native().ContentsSender;
  assert.throws(() => new Sender(path), { code: 'KFD_IO', message: /fifo: / });
  assert.throws(() => new Sender('/dev/null'), { code: 'KFD_PROTOCOL', message: /not a FIFO/ });
  const stream = {} as ContentsSender;
  assert.throws(() => drain({ path: join(folder, 'a'), stream }, []), TypeError);
});

test('a stream that ends early, and one that is cancelled, are told', async (t) => {
  const { fd, path, folder, store } = await fifo(t);
  const buffers = [await buffer(t, folder)];
  const stream = new (native().ContentsSender)(path);
  const cut = native().receiveContents(fd, store, ample);
  await drain({ path: join(folder, 'a'), stream }, buffers).done;
  stream.stop();
  await assert.rejects(cut.done, { code: 'KFD_CORRUPT', message: /they end in the middle/ });

  const next = new (native().ContentsSender)(path);
  const waiting = native().receiveContents(fd, store, ample);
  waiting.cancel();
  await assert.rejects(waiting.done, { code: 'KFD_CANCELLED' });
  next.stop();
  const missing = native().receiveContents(fd, join(folder, 'none'), ample);
  await assert.rejects(missing.done, { code: 'KFD_IO' });
});
