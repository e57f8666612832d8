/** A restore session whose plugin, launcher and CRIU are played: what it gives, waits for and refuses. */

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { KfdError } from '../../src/errors.js';
import { fileKind, messageType } from '../../src/session/plugin/wire.js';
import { coded, FakeJob, fakeJobs, SlowJob } from './fake-job.js';
import { content, describeFiles, gpuIds, kfdBos, names } from './forged-image.js';
import { stateFile } from './forged-state.js';
import { lives } from './lives.js';
import { contents, refusedAtGate, restoreTask, started } from './played-restore.js';

test('a restore: files and states for the task, its contents, RESUME, and a success', async (t) => {
  const all = await started(t);
  const kfd = await all.ask(messageType.openFile, [5, 7]);
  assert.deepEqual([kfd.type, kfd.args], [messageType.ok, [fileKind.kfd, 0]]);
  const [memfd] = kfd.fds;
  assert.deepEqual(await readFile(`/proc/self/fd/${memfd?.fd}`), all.parts.files.get(names.state));
  const render = await all.ask(messageType.openFile, [6, 7]);
  assert.deepEqual(render.args, [fileKind.render, 0, 51966, 0]);
  const other = await all.ask(messageType.openFile, [77, 7]);
  assert.deepEqual(other.args, [fileKind.none]);
  const held = await all.ask(messageType.renderState, [0, 0]);
  assert.deepEqual(held.args, [1, 51966, 0, kfdBos.length]);
  assert.equal(held.fds.length, 1);
  assert.deepEqual((await all.ask(messageType.renderState, [0, 1])).args, [0], 'there is no other');

  await restoreTask(t, all);
  assert.equal((await all.ask(messageType.vmasMapped, [0, 0])).type, messageType.ok);
  assert.equal((await all.stage('pre-resume')).type, messageType.ok);
  assert.deepEqual(all.resumed, []);
  assert.equal((await all.stage('post-restore')).type, messageType.ok);
  assert.deepEqual(all.resumed, [all.task]);
  for (const [i, [index, bytes]] of contents.entries()) {
    assert.ok((await readFile(all.paths[i] as string)).equals(bytes), `BO ${index}`);
  }
  assert.throws(() => all.session.cancel(new KfdError('E_CANCELLED', 'x')), {
    code: 'E_TOO_LATE',
    message: 'session: cannot be cancelled: the GPU is running',
  });
  assert.equal((await all.stage('post-resume')).type, messageType.ok);
  assert.deepEqual(await all.finish(), {
    outcome: 'restored',
    success: true,
    code: '',
    message: '',
  });
  assert.ok(lives(all.task), 'nobody ends a task that runs');
  const lines = (await readFile(all.logFile, 'utf8')).trim().split('\n');
  const last = JSON.parse(lines.at(-1) ?? '') as Record<string, unknown>;
  const bytes = contents.reduce((sum, [, { length }]) => sum + length, 0);
  assert.deepEqual(
    [last['msg'], last['content_bytes'], last['processes']],
    ['session ended', bytes, 1],
  );
});

test('contents that are damaged are refused at the gate, and the task is ended', async (t) => {
  const all = await started(t, {
    bend: ({ files }) => {
      const file = files.get(names.second) as Buffer;
      file.write('damage', file.indexOf('content 4') + 500);
    },
  });
  await restoreTask(t, all);
  assert.match(await refusedAtGate(all), /^E_IMAGE_CORRUPT: amdgpu-pages-0-0001\.img: .*frame 0/);
});

test('a failed upload cancels the others at once, before CRIU asks', async (t) => {
  const all = await started(t);
  const jobs: FakeJob[] = [];
  fakeJobs(t, () => {
    const job = new SlowJob();
    jobs.push(job);
    return job;
  });
  await restoreTask(t, all);
  while (jobs.length < 2) await delay(1);
  const [running, broken] = jobs;
  broken?.fail(coded('KFD_GPU', 'ring timeout'));
  await new Promise(setImmediate);
  assert.equal(running?.cancelled, true);
  const gate = refusedAtGate(all);
  await delay(20);
  const refused = all.replies.filter(({ type }) => type === messageType.error);
  assert.deepEqual(refused, [], 'CRIU kills the tree only when its memory is free');
  running?.fail(coded('KFD_CANCELLED', 'cancelled'));
  assert.equal(await gate, `E_GPU_IO: ${names.second}: ring timeout`);
});

test('mappings that did not come back, and tasks that did not, are no success', async (t) => {
  const mapped = await started(t);
  await restoreTask(t, mapped);
  await mapped.ask(messageType.vmasMapped, [0, 3]);
  const missing = 'E_GPU_IO: process 0: 3 of 0 GPU mappings came back';
  assert.equal(await refusedAtGate(mapped), missing);
  const absent = await started(t);
  await absent.ask(messageType.openFile, [5, 7]);
  assert.equal(await refusedAtGate(absent), 'E_PROTOCOL: restore: process 0 was not restored');
});

test('a task that ended before RESUME is no success, and its pid is left alone', async (t) => {
  const all = await started(t);
  await restoreTask(t, all);
  process.kill(all.task, 'SIGKILL');
  while (lives(all.task)) await delay(5);
  assert.equal(await refusedAtGate(all), 'E_GPU_IO: process 0: ended before RESUME');
});

test('uploads that do not end in time are refused with the deadline', async (t) => {
  const all = await started(t, { config: { gate_timeout_s: 0.001 } });
  fakeJobs(t, () => new FakeJob());
  await restoreTask(t, all);
  assert.match(await refusedAtGate(all), /^E_TIMEOUT: upload: not finished 0\.001 s after/);
});

test('with parallel: false contents are uploaded at the gate', async (t) => {
  const all = await started(t, { config: { parallel: false } });
  await restoreTask(t, all);
  await delay(20);
  assert.equal(all.context.transfers.elapsedUs, 0);
  assert.equal((await all.stage('post-restore')).type, messageType.ok);
  assert.ok((await readFile(all.paths[2] as string)).equals(content(4)));
  await all.stage('post-resume');
  assert.equal((await all.finish()).outcome, 'restored');
});

test('a failure in the task, and a cancel, are told at the gate', async (t) => {
  const failed = await started(t);
  await failed.ask(messageType.openFile, [5, 7]);
  await failed.send({
    type: messageType.restoreFailed,
    args: [0, 0],
    body: 'RESTORE: Invalid argument',
  });
  assert.equal(await refusedAtGate(failed), 'E_GPU_IO: RESTORE: Invalid argument');
  const cancelled = await started(t);
  await restoreTask(t, cancelled);
  cancelled.session.cancel(new KfdError('E_CANCELLED', 'session: cancelled: enough'));
  assert.equal(await refusedAtGate(cancelled), 'E_CANCELLED: session: cancelled: enough');
});

test("at CRIU's end the plugin says that the tasks run; a message of another kind is refused", async (t) => {
  const all = await started(t);
  await restoreTask(t, all);
  await all.stage('post-restore');
  assert.equal((await all.ask(messageType.restoreEnd, [1])).type, messageType.ok);
  assert.equal((await all.ask(messageType.restoreEnd, [0])).type, messageType.ok);
  const stranger = await all.ask(messageType.dumpBegin, [0]);
  assert.equal(stranger.type, messageType.error);
  assert.match(stranger.text, /^E_PROTOCOL: message 23: not expected in this session/);
  assert.equal((await all.finish()).outcome, 'restored', 'a failure that comes too late');
  const early = await started(t);
  await early.ask(messageType.restoreEnd, [1]);
  assert.equal((await early.finish()).outcome, 'failed');
});

test('a process that only opened /dev/kfd comes back without RESUME', async (t) => {
  const all = await started(t, {
    bend: ({ manifest, files }) => {
      files.clear();
      const devices = gpuIds.map((id) => [id, id] as const);
      files.set(names.state, stateFile({ devices, bos: [] }));
      manifest.ext_files = [{ criu_id: 5, kind: 'kfd', process: 0 }];
      manifest.buffers = [];
      Object.assign(manifest.processes[0] as object, { num_bos: 0 });
      describeFiles({ manifest, files });
    },
  });
  const kfd = await all.ask(messageType.openFile, [5, 7]);
  assert.deepEqual([kfd.args, kfd.fds], [[fileKind.kfd, 0], []]);
  await all.ask(messageType.restored, [0, 0]);
  assert.equal((await all.stage('post-restore')).type, messageType.ok);
  assert.deepEqual(all.resumed, []);
  await all.stage('post-resume');
  assert.equal((await all.finish()).outcome, 'restored');
});

test('where render files hold more, /dev/kfd alone is not all of a process', async (t) => {
  const all = await started(t);
  await all.ask(messageType.openFile, [5, 7]);
  assert.equal((await all.ask(messageType.restored, [0, 0])).text, 'log');
  assert.equal(await refusedAtGate(all), 'E_PROTOCOL: restore: process 0 was not restored');
});

test('an image without a GPU waits for nothing', async (t) => {
  const all = await started(t, { withoutGpu: true });
  assert.equal((await all.stage('post-restore')).type, messageType.ok);
  await all.stage('post-resume');
  assert.equal((await all.finish()).outcome, 'restored');
});
