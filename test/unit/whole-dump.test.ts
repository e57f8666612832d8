/** Whole checkpoints of a process with KFD: the plugin and CRIU are played, files play its buffers, the CPU drains. */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { Config } from '../../src/config.js';
import { KfdError } from '../../src/errors.js';
import { readHost } from '../../src/gpu/host.js';
import { decodeManifest } from '../../src/manifest/codec.js';
import { type Descriptor, native } from '../../src/native.js';
import { DumpSession } from '../../src/session/dump/session.js';
import { fileKind, messageType } from '../../src/session/plugin/wire.js';
import { preflight } from '../../src/session/restore/preflight.js';
import { kfdVersion } from './dumped.js';
import { coded, fakeJobs, SlowJob } from './fake-job.js';
import { content, gpuIds, kfdBos, names, renderBo } from './forged-image.js';
import { renderStateFile, stateFile } from './forged-state.js';
import { temporaryFolder } from './paths.js';
import { playedSession } from './played-session.js';
import { received } from './received.js';
import { bentHost } from './sysfs-tree.js';

/** BO indices with contents, and their bytes. The last one is of the render file. */
const contents: readonly (readonly [index: number, bytes: Buffer])[] = [
  [0, Buffer.concat([content(1), content(2, 4096)])],
  [1, Buffer.alloc(kfdBos[1].size)],
  [2, content(4)],
  [4, content(3, renderBo.size)],
];
const offsetOf = (index: number) => BigInt(index + 1) * 4096n;
const kfdState = stateFile({
  devices: gpuIds.map((id) => [id, id] as const),
  bos: kfdBos.map((bo, i) => ({ ...bo, mmapOffset: offsetOf(i), gpuId: gpuIds[i === 2 ? 1 : 0] })),
});
const renderState = renderStateFile({ bos: [renderBo], contexts: [1] });

async function started(t: TestContext, config: Partial<Config> = {}) {
  const folder = await temporaryFolder(t);
  const image = join(folder, 'image');
  await mkdir(image);
  // A container checkpointed before in place.
  for (const name of ['kfd-manifest.json', 'kfd-state-0.img', 'render-state-3.img']) {
    await writeFile(join(image, name), 'old');
  }
  const worker = spawn('sleep', ['60']);
  t.after(() => worker.kill('SIGKILL'));
  await once(worker, 'spawn');
  const request = { operation: 'dump', criuPid: process.pid, image } as const;
  const played = await playedSession(t, request, { engine: 'cpu', ...config });
  const root = await bentHost(t, 'two-gpus', {});
  const hostOptions = { root, kfdVersion };
  const restoreTakes = () => assert.fail('no queue is on several dies');
  const host = () => readHost(hostOptions);
  const session = new DumpSession(played.context, host, { root, restoreTakes });
  await session.start();
  const unpaused: number[] = [];
  t.mock.method(native(), 'kfdUnpause', (pid: number) => {
    unpaused.push(pid);
    return true;
  });
  const paths = contents.map(([index]) => join(folder, `bo-${index}`));
  for (const [i, [, bytes]] of contents.entries()) await writeFile(paths[i] as string, bytes);
  const dmabufs = await received(t, paths);
  // The kernel's names of these buffers are right.
  t.mock.method(native(), 'buffersBehind', (_node: string, given: readonly Descriptor[]) =>
    given.map((dmabuf) => {
      const [index, bytes] = contents[dmabufs.indexOf(dmabuf)] ?? assert.fail();
      const size = bytes.length;
      return index < kfdBos.length ? { size, mmapOffset: offsetOf(index) } : { size };
    }),
  );
  const pid = worker.pid as number;
  const send = (type: number, args: number[], body: string | Buffer = '', fds: Descriptor[] = []) =>
    played.send({ type, args, body, fds });
  const ask = (type: number, args: number[], body = '') => played.ask({ type, args, body });
  return {
    ...{ ...played, session, image, hostOptions, paths, dmabufs, unpaused, worker, pid, send, ask },
    stage: (name: string) => ask(messageType.stage, [], name),
  };
}

type Started = Awaited<ReturnType<typeof started>>;

/** The process is paused, and sends its state and its buffers. */
async function read({ send, pid, dmabufs }: Started): Promise<void> {
  const kfd = native().memfd(Buffer.from('stands for /dev/kfd'));
  await send(messageType.dumpPause, [0, pid], 'worker', [native().openPidfd(pid), kfd]);
  await send(messageType.dumpState, [0], '', [native().memfd(kfdState)]);
  await send(messageType.dumpRender, [0, 0, 128, 1], '', [native().memfd(renderState)]);
  await send(messageType.dumpRender, [0, 1, 129, 0]);
  const body = Buffer.alloc(4 * contents.length);
  contents.forEach(([index], i) => void body.writeUInt32LE(index, 4 * i));
  await send(messageType.dumpBuffers, [0], body, [...dmabufs]);
}

/** CRIU dumps the files of the GPUs. */
async function dumpFiles({ send }: Started): Promise<void> {
  await send(messageType.dumpFile, [5, fileKind.kfd, 0]);
  await send(messageType.dumpFile, [6, fileKind.render, 0, 0]);
  await send(messageType.dumpFile, [7, fileKind.render, 0, 1]);
}

/** The answer to exit(DUMP): 0 to unpause the tree, 1 to leave it paused, 2 to unpause it before the seal. */
const end = async ({ ask }: Started, result = 0) =>
  (await ask(messageType.dumpEnd, [result, 0])).args;

const ok = async (answer: ReturnType<Started['ask']>) => {
  const { type, text } = await answer;
  assert.equal(type, messageType.ok, text);
  return text;
};

/** A restore would take the image, and get each content out of it. */
async function assertWhole(t: TestContext, { image, hostOptions }: Started): Promise<void> {
  const plan = await preflight(image, {}, hostOptions);
  assert.equal(plan?.processes[0]?.kfdBos, kfdBos.length);
  const folder = await temporaryFolder(t);
  for (const file of [names.first, names.second]) {
    const buffers = plan.manifest.buffers.filter(({ pages_file: name }) => name === file);
    const paths = buffers.map(({ id }) => join(folder, `${id}`));
    for (const path of paths) await writeFile(path, '');
    const dmabufs = await received(t, paths);
    for (const [i, { size }] of buffers.entries()) {
      await writeFile(paths[i] as string, Buffer.alloc(size, 0xff));
    }
    const own = buffers.map(({ id, size }, i) => ({ id, size, dmabuf: dmabufs[i] as Descriptor }));
    const ring = { slots: 4, slotBytes: 2 << 20, workers: 2 };
    const what = { operation: 'upload', path: join(image, file), renderNode: '', ...ring } as const;
    await new (native().TransferJob)({ ...what, engine: 'cpu', buffers: own }).done;
    for (const [i, { bo_index: index }] of buffers.entries()) {
      const expected = contents.find(([one]) => one === index)?.[1] ?? assert.fail(`BO ${index}`);
      assert.ok((await readFile(paths[i] as string)).equals(expected), `BO ${index}`);
    }
  }
}

const whole = [names.first, names.second, 'kfd-manifest.json', names.state, names.render].sort();

test('a checkpoint: states, contents and files are in a sealed image that a restore accepts', async (t) => {
  const all = await started(t);
  await read(all);
  assert.equal(await ok(all.ask(messageType.dumpBegin, [1, 0])), 'log');
  await dumpFiles(all);
  await ok(all.stage('network-lock'));
  assert.ok(!existsSync(join(all.image, 'kfd-manifest.json')));
  await ok(all.stage('post-dump'));
  assert.deepEqual((await readdir(all.image)).sort(), whole);
  const manifest = decodeManifest(await readFile(join(all.image, 'kfd-manifest.json')));
  assert.deepEqual(manifest.ext_files, [
    { criu_id: 5, kind: 'kfd', process: 0 },
    { criu_id: 6, kind: 'render', process: 0, gpu: 0, render_state: names.render },
    { criu_id: 7, kind: 'drm', process: 0, gpu: 1 },
  ]);
  assert.equal(manifest.processes[0]?.pid, all.pid);
  assert.deepEqual(
    manifest.files.map(({ name }) => name).sort(),
    whole.filter((name) => !name.includes('manifest')),
  );
  for (const name of [
    'prepare',
    'wait_for_tree',
    'read_state',
    'overlap',
    'gate',
    'seal',
    'total',
    'drain',
  ]) {
    assert.ok((manifest.timings_us[name] ?? -1) >= 0, `no time of ${name}`);
  }
  await assertWhole(t, all);
  assert.throws(() => all.session.cancel(new KfdError('E_CANCELLED', 'x')), {
    code: 'E_TOO_LATE',
    message: 'session: cannot be cancelled: the image is complete',
  });
  assert.deepEqual(await end(all), [1], 'the GPU of a dying tree stays paused');
  await ok(all.ask(messageType.dumpResult, [0]));
  all.worker.kill('SIGKILL');
  await once(all.worker, 'exit');
  assert.equal((await all.session.finish()).outcome, 'sealed');
  assert.deepEqual(all.unpaused, []);
  for (const { fd } of all.dmabufs) assert.equal(fd, -1, 'a buffer of the tree is held');
});

test('a short freeze: the tree runs before the image is sealed, and the image has what was there', async (t) => {
  const all = await started(t);
  await read(all);
  await ok(all.ask(messageType.dumpBegin, [1, 1]));
  await dumpFiles(all);
  await ok(all.stage('post-dump'));
  assert.ok(!existsSync(join(all.image, 'kfd-manifest.json')));
  assert.ok(existsSync(join(all.image, names.state)));
  for (const { fd } of all.dmabufs) assert.equal(fd, -1, 'what the tree frees must become free');
  assert.deepEqual(await end(all), [2]);
  await ok(all.ask(messageType.dumpUnpaused, []));
  for (const [i, [, bytes]] of contents.entries()) {
    await writeFile(all.paths[i] as string, Buffer.alloc(bytes.length, 0x5a));
  }
  await ok(all.ask(messageType.dumpResult, [0]));
  const manifest = decodeManifest(await readFile(join(all.image, 'kfd-manifest.json')));
  for (const name of ['freeze', 'snapshot', 'after_freeze']) {
    assert.ok((manifest.timings_us[name] ?? 0) > 0, `no time of ${name}`);
  }
  await assertWhole(t, all);
  assert.equal((await all.session.finish()).outcome, 'sealed');
  assert.deepEqual(all.unpaused, []);
});

test('without short_freeze a tree that continues waits for the seal', async (t) => {
  const all = await started(t, { short_freeze: false });
  await read(all);
  await ok(all.ask(messageType.dumpBegin, [1, 1]));
  await dumpFiles(all);
  await ok(all.stage('post-dump'));
  assert.ok(existsSync(join(all.image, 'kfd-manifest.json')));
  assert.deepEqual(await end(all), [1]);
  assert.equal(
    (await all.session.finish()).outcome,
    'abandoned',
    'the tree runs on without a result',
  );
  assert.deepEqual(all.unpaused, [all.pid]);
});

/** How a checkpoint ends whose failure was told: nothing stays paused, and nothing in the image. */
async function assertUndone(all: Started, reason: string, told: string): Promise<void> {
  assert.ok(told.startsWith(reason), told);
  assert.deepEqual(await end(all, -1), [0]);
  const { outcome, code, message } = await all.session.finish();
  assert.equal(outcome, 'abandoned');
  assert.equal(`${code}: ${message}`, reason);
  assert.deepEqual(all.unpaused, [all.pid]);
  assert.deepEqual(await readdir(all.image), []);
}

test('a failed drain cancels the other one; the image goes when both have ended', async (t) => {
  const all = await started(t);
  const jobs: SlowJob[] = [];
  fakeJobs(t, () => {
    const job = new SlowJob();
    jobs.push(job);
    return job;
  });
  await read(all);
  await ok(all.ask(messageType.dumpBegin, [1, 0]));
  while (jobs.length < 2) await delay(1);
  const [running, broken] = jobs;
  broken?.fail(coded('KFD_IO', 'No space left on device'));
  await new Promise(setImmediate);
  assert.equal(running?.cancelled, true);
  const { type, text } = await all.stage('post-dump');
  assert.equal(type, messageType.error);
  setTimeout(async () => {
    await writeFile(join(all.image, names.first), 'what it has written meanwhile');
    running?.fail(coded('KFD_CANCELLED', 'cancelled'));
  }, 20);
  await assertUndone(all, `E_IO: ${names.second}: No space left on device`, text);
});

test('what the plugin refuses, and a cancel, end the checkpoint at its next question', async (t) => {
  const refused = await started(t);
  await read(refused);
  await refused.send(messageType.dumpRefused, [0, 0], 'pid 7 (x): has a queue of a kind');
  const begin = await refused.ask(messageType.dumpBegin, [1, 0]);
  assert.equal(begin.type, messageType.error);
  await assertUndone(refused, 'E_UNSUPPORTED_STATE: pid 7 (x): has a queue of a kind', begin.text);
  const cancelled = await started(t);
  await read(cancelled);
  await ok(cancelled.ask(messageType.dumpBegin, [1, 0]));
  cancelled.session.cancel(new KfdError('E_CANCELLED', 'session: cancelled: enough'));
  const gate = await cancelled.stage('post-dump');
  assert.equal(gate.type, messageType.error);
  await assertUndone(cancelled, 'E_CANCELLED: session: cancelled: enough', gate.text);
});

test('messages that do not fit together fail the checkpoint', async (t) => {
  const all = await started(t);
  await read(all);
  const { text } = await all.ask(messageType.dumpBegin, [2, 0]);
  await assertUndone(all, 'E_PROTOCOL: plugin: a process is missing', text);
  const late = await started(t);
  await read(late);
  await ok(late.ask(messageType.dumpBegin, [1, 0]));
  const again = await late.ask(messageType.dumpBegin, [1, 0]);
  await assertUndone(late, 'E_PROTOCOL: plugin: begin while draining', again.text);
});
