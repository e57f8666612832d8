/** Uploads of a restore, without contents: which files are asked for, and what a failure does to the others. */

import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { defaultConfig } from '../../src/config.js';
import type { GpuPair } from '../../src/gpu/pair.js';
import { createLogger } from '../../src/log.js';
import type { Descriptor } from '../../src/native.js';
import { Transfers } from '../../src/session/contents/transfers.js';
import { Uploads } from '../../src/session/contents/upload.js';
import { type Asked, coded, FakeJob, fakeJobs, plenty, SlowJob } from './fake-job.js';
import { hostWith } from './host-builder.js';
import { sampleManifest } from './manifest-sample.js';

const [first, second] = ['amdgpu-pages-0-0000.img', 'amdgpu-pages-0-0001.img'];
const dmabufs = new Map([3, 4, 5].map((index) => [index, { fd: index, close() {} }]));

/** Uploads of the sample's files. Its GPUs are renderD140 and renderD141 here. */
function sample(t: TestContext, job: new () => FakeJob = FakeJob) {
  const asked: Asked[] = [];
  const jobs: FakeJob[] = [];
  fakeJobs(t, (options) => {
    asked.push(options);
    const made = new job();
    jobs.push(made);
    return made;
  });
  const manifest = sampleManifest();
  const { gpus } = hostWith({}, {});
  const pairs = manifest.gpus.map((recorded, i) => ({ recorded, present: gpus[i] }) as GpuPair);
  const transfers = new Transfers(plenty);
  const log = createLogger({ level: 'silent' });
  const context = { config: defaultConfig(), log, image: '/image', contents: '/image', transfers };
  const pages = new Map([
    [first, [`/image/${first}`]],
    [second, [`/image/${second}`, `/parent/${second}`, '/oldest/other.img']],
  ] as const);
  const uploads = new Uploads(context, { manifest, pairs, pages });
  return { uploads, transfers, asked, jobs, manifest, pairs };
}

const turn = () => new Promise(setImmediate);

test('each file of a process goes to its GPU, and the time until the last one counts', async (t) => {
  const { uploads, transfers, asked, jobs } = sample(t);
  assert.deepEqual(uploads.timings(0), {});
  const done = uploads.start(0, dmabufs);
  await turn();
  assert.deepEqual(
    asked.map(({ operation, path, renderNode, engine }) => [operation, path, renderNode, engine]),
    [
      ['upload', `/image/${first}`, '/dev/dri/renderD140', 'sdma'],
      ['upload', `/image/${second}`, '/dev/dri/renderD141', 'sdma'],
    ],
  );
  const ancestors = [`/parent/${second}`, '/oldest/other.img'];
  assert.deepEqual(
    asked.map(({ parents }) => parents),
    [undefined, ancestors],
  );
  assert.deepEqual(
    asked.map(({ buffers }) => buffers),
    [
      [
        { id: 0, size: 2097152, dmabuf: dmabufs.get(3) },
        { id: 1, size: 4096, dmabuf: dmabufs.get(4) },
      ],
      [{ id: 2, size: 1048576, dmabuf: dmabufs.get(5) }],
    ],
  );
  assert.deepEqual(
    transfers
      .progress()
      .map(({ name, process, renderNode, bytes }) => [name, process, renderNode, bytes]),
    [
      [first, 0, '/dev/dri/renderD140', 2101248],
      [second, 0, '/dev/dri/renderD141', 1048576],
    ],
  );
  assert.deepEqual(uploads.timings(0), {}, 'none has ended');
  jobs[0]?.end({ bytes: 10 });
  jobs[1]?.end({ bytes: 5 });
  await done;
  assert.equal(uploads.bytes, 15);
  const { upload = -1, upload_overlapped: overlapped = -1 } = uploads.timings(undefined);
  assert.ok(upload > 0 && overlapped === upload, `${overlapped} of ${upload} us before the gate`);
  assert.deepEqual(uploads.timings(0), { upload, upload_overlapped: 0 }, 'all after the gate');
  assert.deepEqual(uploads.timings(Number.POSITIVE_INFINITY), {
    upload,
    upload_overlapped: upload,
  });
});

test('a process without contents has nothing to wait for', async (t) => {
  const { uploads, asked } = sample(t);
  await uploads.start(1, new Map<number, Descriptor>());
  assert.deepEqual(asked, []);
});

test('a buffer that did not come back stops its file', async (t) => {
  const { uploads, asked } = sample(t);
  await assert.rejects(uploads.start(0, new Map([...dmabufs].slice(1))), {
    code: 'E_PROTOCOL',
    message: 'restore: BO 3 came back without a dma-buf',
  });
  assert.deepEqual(
    asked.map(({ path }) => path),
    [`/image/${second}`],
  );
});

test('one failed file is told at once; a cancel ends the others and waits for them', async (t) => {
  const { uploads, jobs } = sample(t, SlowJob);
  const upload = uploads.start(0, dmabufs);
  await turn();
  const [broken, running] = jobs;
  assert.ok(broken !== undefined && running !== undefined);
  broken.fail(coded('KFD_CORRUPT', 'frame 3: wrong checksum'));
  await assert.rejects(upload, {
    code: 'E_IMAGE_CORRUPT',
    message: `${first}: frame 3: wrong checksum`,
  });
  assert.equal(running.cancelled, false);
  let ended = false;
  const cancelled = uploads.cancel().then(() => {
    ended = true;
  });
  assert.equal(running.cancelled, true);
  await turn();
  assert.equal(ended, false, 'its descriptors are in use');
  running.fail(coded('KFD_CANCELLED', 'cancelled'));
  await cancelled;
  assert.deepEqual(uploads.timings(0), {}, 'nothing was uploaded');
});

test('the CPU takes over if the restore still has the time', async (t) => {
  let seconds = 0;
  t.mock.method(performance, 'now', () => seconds * 1000);
  const { uploads, asked, jobs } = sample(t);
  const noSdma = coded('KFD_ENGINE', 'SDMA: no ring');
  // It may need one second, and gate_timeout_s is 200.
  seconds = 199;
  const upload = uploads.start(0, dmabufs);
  await turn();
  jobs[0]?.fail(noSdma);
  await turn();
  assert.deepEqual(
    asked.map(({ engine, path }) => [engine, path]),
    [
      ['sdma', `/image/${first}`],
      ['sdma', `/image/${second}`],
      ['cpu', `/image/${first}`],
    ],
  );
  seconds = 199.1;
  jobs[1]?.fail(noSdma);
  await assert.rejects(upload, {
    code: 'E_GPU_IO',
    message: `${second}: SDMA: no ring; the CPU may need 1 s for renderD141, and gate_timeout_s is 200`,
  });
});
