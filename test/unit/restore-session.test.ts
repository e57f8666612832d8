/** A restore session with a plugin, a launcher and a CRIU that are played. The CPU uploads into files. */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { Config } from '../../src/config.js';
import { KfdError } from '../../src/errors.js';
import { native } from '../../src/native.js';
import { fileKind, messageType } from '../../src/session/plugin/wire.js';
import { RestoreSession } from '../../src/session/restore/session.js';
import { kfdVersion } from './dumped.js';
import { coded, FakeJob, fakeJobs, SlowJob } from './fake-job.js';
import {
  content,
  describeFiles,
  gpuIds,
  imageFiles,
  kfdBos,
  names,
  type Parts,
  renderBo,
  soundParts,
} from './forged-image.js';
import { stateFile } from './forged-state.js';
import { lives } from './lives.js';
import { temporaryFolder } from './paths.js';
import { playedSession } from './played-session.js';
import { received } from './received.js';
import { bentHost } from './sysfs-tree.js';

/** BO indices with contents, and their bytes. */
const contents: readonly (readonly [index: number, bytes: Buffer])[] = [
  [0, Buffer.concat([content(1), content(2, 4096)])],
  [1, Buffer.alloc(kfdBos[1].size)],
  [2, content(4)],
  [4, content(3, renderBo.size)],
];

/** A shell in the place of CRIU, with one task. */
async function playedCriu(t: TestContext) {
  const shell = spawn('sh', ['-c', 'sleep 60 & echo $!; while :; do sleep 1; done'], {
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  t.after(() => shell.kill('SIGKILL'));
  const [text] = (await once(shell.stdout, 'data')) as [Buffer];
  const task = Number(text.toString());
  t.after(() => lives(task) && process.kill(task, 'SIGKILL'));
  const die = async () => {
    shell.kill('SIGKILL');
    await once(shell, 'exit');
  };
  return { criuPid: shell.pid as number, task, die };
}

async function started(
  t: TestContext,
  bend: (parts: Parts) => void = () => undefined,
  config: Partial<Config> = {},
  withoutGpu = false,
) {
  const folder = await temporaryFolder(t);
  const image = join(folder, 'image');
  await mkdir(image);
  const parts = soundParts();
  bend(parts);
  for (const [name, bytes] of Object.entries(withoutGpu ? {} : imageFiles(parts))) {
    await writeFile(join(image, name), bytes);
  }
  const criu = await playedCriu(t);
  const request = { operation: 'restore', criuPid: criu.criuPid, image } as const;
  const played = await playedSession(t, request, { engine: 'cpu', ...config });
  const root = await bentHost(t, 'two-gpus', {});
  const session = new RestoreSession(played.context, { root, kfdVersion });
  await session.start();
  const paths = contents.map(([index]) => join(folder, `bo-${index}`));
  for (const [i, [, bytes]] of contents.entries()) {
    await writeFile(paths[i] as string, Buffer.alloc(bytes.length, 0xff));
  }
  const resumed: number[] = [];
  t.mock.method(native(), 'kfdResume', (pid: number) => void resumed.push(pid));
  const ask = (type: number, args: readonly number[] = [], body: string | Buffer = '') =>
    played.ask({ type, args, body, pid: criu.task });
  return {
    ...played,
    ...criu,
    session,
    parts,
    paths,
    resumed,
    ask,
    stage: (name: string) => ask(messageType.stage, [], name),
    finish: async () => {
      await criu.die();
      return session.finish();
    },
  };
}

type Started = Awaited<ReturnType<typeof started>>;

/** The task gets its files, calls RESTORE, and sends its buffers. */
async function restoreTask(t: TestContext, all: Started): Promise<void> {
  const body = Buffer.alloc(4 * contents.length);
  contents.forEach(([index], i) => void body.writeUInt32LE(index, 4 * i));
  const fds = await received(t, all.paths);
  await all.send({ type: messageType.restoreBuffers, args: [0], body, fds, pid: all.task });
  const { type, text } = await all.ask(messageType.restored, [0, 1]);
  assert.deepEqual([type, text], [messageType.ok, 'log']);
}

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
  await all.ask(messageType.vmasMapped, [0, 0]);
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

/** A session at whose gate something is wrong: the answer, and how it ends. */
async function refusedAtGate(all: Started): Promise<string> {
  const { type, text } = await all.stage('post-restore');
  assert.equal(type, messageType.error, text);
  assert.deepEqual(all.resumed, []);
  const { outcome, success, code, message } = await all.finish();
  assert.deepEqual([outcome, success], ['failed', false]);
  assert.ok(text.startsWith(`${code}: ${message}`), `${text}; ${code}: ${message}`);
  assert.ok(!lives(all.task), 'a task stays that nobody resumes');
  return `${code}: ${message}`;
}

test('contents that are damaged are refused at the gate, and the task is ended', async (t) => {
  const all = await started(t, ({ files }) => {
    const file = files.get(names.second) as Buffer;
    file.write('damage', file.indexOf('content 4') + 500);
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

test('mappings that did not come back are no success', async (t) => {
  const mapped = await started(t);
  await restoreTask(t, mapped);
  await mapped.ask(messageType.vmasMapped, [0, 3]);
  const missing = 'E_GPU_IO: process 0: 3 of 0 GPU mappings came back';
  assert.equal(await refusedAtGate(mapped), missing);
});

test('a task that ended before RESUME is no success, and its pid is left alone', async (t) => {
  const all = await started(t);
  await restoreTask(t, all);
  process.kill(all.task, 'SIGKILL');
  while (lives(all.task)) await delay(5);
  assert.equal(await refusedAtGate(all), 'E_GPU_IO: process 0: ended before RESUME');
});

test('uploads that do not end in time are refused with the deadline', async (t) => {
  const all = await started(t, undefined, { gate_timeout_s: 0.001 });
  fakeJobs(t, () => new FakeJob());
  await restoreTask(t, all);
  assert.match(await refusedAtGate(all), /^E_TIMEOUT: upload: not finished 0\.001 s after/);
});

test('with parallel: false contents are uploaded at the gate', async (t) => {
  const all = await started(t, undefined, { parallel: false });
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
  assert.equal((await early.finish()).success, false);
});

test('a process that only opened /dev/kfd comes back without RESUME', async (t) => {
  const all = await started(t, ({ manifest, files }) => {
    files.clear();
    const devices = gpuIds.map((id) => [id, id] as const);
    files.set(names.state, stateFile({ devices, bos: [] }));
    manifest.ext_files = [{ criu_id: 5, kind: 'kfd', process: 0 }];
    manifest.buffers = [];
    Object.assign(manifest.processes[0] as object, { num_bos: 0 });
    describeFiles({ manifest, files });
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
  const all = await started(t, undefined, {}, true);
  assert.equal((await all.stage('post-restore')).type, messageType.ok);
  await all.stage('post-resume');
  assert.equal((await all.finish()).outcome, 'restored');
});
