import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import { createLogger } from '../../src/log.js';
import { native } from '../../src/native.js';
import type { RestoreImage } from '../../src/session/restore/image.js';
import { evictedOf, resumeAll } from '../../src/session/restore/resume.js';
import {
  allUploaded,
  closeBuffers,
  opensKfd,
  type Returning,
  renderFilesOf,
} from '../../src/session/restore/returning.js';
import { sampleManifest } from './manifest-sample.js';

const log = createLogger({ level: 'silent' });

test('RESUME is not called for a task that has ended: its pid may be another process', async (t) => {
  const task = spawn('sleep', ['60']);
  await once(task, 'spawn');
  const pid = task.pid as number;
  const pidfd = native().openPidfd(pid);
  t.after(() => pidfd.close());
  const resumed: number[] = [];
  t.mock.method(native(), 'kfdResume', (one: number) => void resumed.push(one));
  const prepared = { ordinal: 3 };
  const processes = [
    { prepared },
    { prepared, pid: pid + 1 }, // it never called RESTORE
    { prepared, pid, pidfd },
    { prepared, pid: pid + 2, pidfd }, // it has nothing to resume
  ] as unknown as Returning[];
  const evicted = [pid, pid + 1].map((one) => ({ pid: one, counters: new Map<string, string>() }));
  resumeAll(processes, evicted);
  assert.deepEqual(resumed, [pid]);
  task.kill('SIGKILL');
  await once(task, 'exit');
  assert.throws(() => resumeAll(processes, evicted), {
    code: 'E_GPU_IO',
    message: 'process 3: ended before RESUME',
  });
  resumeAll(processes, []);
  assert.deepEqual(resumed, [pid]);
});

test('RESUME is for those that have called RESTORE, and are not idle', async () => {
  const prepared = { ordinal: 0, summary: { devices: [{ actualGpuId: 51966 }] } };
  const idle = { prepared, pid: 2 ** 22 + 2 };
  const processes = [{ prepared }, idle, { prepared, pid: 2 ** 22 + 3 }];
  const image = {
    processes: new Map(processes.map((one, ordinal) => [ordinal, one])),
    hasKfdState: (process: unknown) => process !== idle,
    pair: () => ({ present: { record: { gpu_id: 1000 } } }),
  } as unknown as RestoreImage;
  const evicted = await evictedOf(image, log);
  assert.deepEqual(
    evicted.map(({ pid, counters }) => [pid, counters.size]),
    [[2 ** 22 + 3, 0]],
  );
  assert.deepEqual(await evictedOf(undefined, log), []);
});

test('files are those of a process, and of their kind', () => {
  const of = (ordinal: number) => ({ prepared: { ordinal } }) as unknown as Returning;
  const manifest = {
    ...sampleManifest(),
    ext_files: [
      { criu_id: 1, kind: 'kfd', process: 0 },
      { criu_id: 2, kind: 'render', process: 0, gpu: 0 },
      { criu_id: 3, kind: 'drm', process: 1, gpu: 0 },
      { criu_id: 4, kind: 'dmabuf', process: 1, buffer: 0 },
    ],
  } as const;
  const document = manifest as unknown as ReturnType<typeof sampleManifest>;
  assert.deepEqual([opensKfd(document, of(0)), opensKfd(document, of(1))], [true, false]);
  const ids = (ordinal: number) => renderFilesOf(document, of(ordinal)).map((file) => file.criu_id);
  assert.deepEqual([ids(0), ids(1)], [[2], [3]]);
});

test('contents are there when each process has its own', async () => {
  let end: () => void = () => undefined;
  const upload = new Promise<void>((resolve) => {
    end = resolve;
  });
  const prepared = { ordinal: 4 };
  const processes = [
    { prepared, upload: Promise.resolve() },
    { prepared, upload },
  ];
  let done = false;
  const all = allUploaded(processes as unknown as Returning[]).then(() => {
    done = true;
  });
  await new Promise(setImmediate);
  assert.equal(done, false);
  end();
  await all;
  await assert.rejects(allUploaded([{ prepared }] as unknown as Returning[]), {
    code: 'E_PROTOCOL',
    message: 'restore: process 4 was not restored',
  });
});

test('buffers are closed once', () => {
  const closed: number[] = [];
  const dmabufs = new Map([1, 2].map((fd) => [fd, { fd, close: () => void closed.push(fd) }]));
  const processes = [{ dmabufs }] as unknown as Returning[];
  closeBuffers(processes);
  closeBuffers(processes);
  assert.deepEqual(closed, [1, 2]);
});
