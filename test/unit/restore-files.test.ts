/** What restored tasks get when they ask for files of GPUs, and buffers that several of them have. */

import assert from 'node:assert/strict';
import { closeSync, openSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { type TestContext, test } from 'node:test';
import type { HostGpu } from '../../src/gpu/host.js';
import type { GpuPair } from '../../src/gpu/pair.js';
import type { Manifest, ManifestExtFile } from '../../src/manifest/schema.js';
import { type Descriptor, native } from '../../src/native.js';
import { Phases } from '../../src/session/phases.js';
import type { Message } from '../../src/session/plugin/message.js';
import { fileKind } from '../../src/session/plugin/wire.js';
import { DeviceFilter } from '../../src/session/restore/device-filter.js';
import { RestoreFiles } from '../../src/session/restore/files.js';
import { RestoreImage } from '../../src/session/restore/image.js';
import type { PreparedProcess } from '../../src/session/restore/prepare.js';
import { leaveFilter } from '../../src/session/restore/returning.js';
import { stateFile } from './forged-state.js';
import { hostWith } from './host-builder.js';
import { sampleManifest } from './manifest-sample.js';

const state = stateFile({ devices: [[1, 51966]] });
const readState = async () => state;

/** A process that knows the two GPUs by other ids than KFD. */
function prepared(bend: Partial<PreparedProcess> = {}): PreparedProcess {
  const devices = [
    { userGpuId: 1, actualGpuId: 51966, renderVmas: 0 },
    { userGpuId: 2, actualGpuId: 47806, renderVmas: 0 },
  ];
  const facts = { ordinal: 0, nsPid: 7, numObjects: 0, privBytes: 0, vmas: 0, devices };
  return { ordinal: 0, summary: facts, kfdBos: 0, renderStates: [], readState, ...bend };
}

/** A second process like it, with another pid in the container. */
function peer(bend: Partial<PreparedProcess> = {}): PreparedProcess {
  const one = prepared();
  return { ...one, ordinal: 1, summary: { ...one.summary, ordinal: 1, nsPid: 8 }, ...bend };
}

/** `extFiles`: of the image. The GPUs of the host have these ids and device numbers. */
function files(
  extFiles: readonly ManifestExtFile[],
  processes: readonly PreparedProcess[],
  bend: Partial<Manifest> = {},
  ids = [1000, 1001],
) {
  const manifest = { ...sampleManifest(), ext_files: [...extFiles], ...bend };
  const host = hostWith(...ids.map((gpu_id) => ({ gpu_id })));
  const gpus = host.gpus.map((gpu, i) => ({
    ...gpu,
    renderDevice: { major: 1, minor: 3 + 2 * i },
  }));
  const pairs = manifest.gpus.map((recorded, i) => ({ recorded, present: gpus[i] }) as GpuPair);
  const slots = { wants: undefined, root: '/' };
  const none = { ignored: [], risks: [], pages: new Map(), folders: [], ...slots };
  const plan = { manifest, host: { ...host, gpus }, pairs, processes, ...none };
  const image = new RestoreImage(plan);
  return { image, restore: new RestoreFiles(image, new Phases('a'), 600) };
}

const message = (args: number[], fds: Descriptor[] = [], body = Buffer.alloc(0)) =>
  ({ args, fds, body, pid: 4711 }) as unknown as Message;
const kfd = { criu_id: 5, kind: 'kfd', process: 0 } as const;
const drm = (gpu: number, process = 0) => ({ criu_id: 6, kind: 'drm', process, gpu }) as const;

/** A descriptor that counts how often it was closed. */
function counted(fd = 17) {
  let closed = 0;
  const close = () => {
    closed += 1;
  };
  return { descriptor: { fd, close }, closed: () => closed };
}

function opened(t: TestContext, path: string): Descriptor {
  const fd = openSync(path, 'r+');
  t.after(() => closeSync(fd));
  return { fd, close() {} };
}

const bytesOf = ({ fd }: { fd: number }) => readFile(`/proc/self/fd/${fd}`);

test('a process that only opened /dev/kfd gets no state: RESTORE would bind its GPUs', async (t) => {
  const asked: unknown[] = [];
  const memfd = native().memfd(Buffer.from('state'));
  t.after(() => memfd.close());
  t.mock.method(native(), 'stateForRestore', (...args: unknown[]) => {
    asked.push(args);
    return memfd;
  });
  const sameIds = prepared();
  const devices = sameIds.summary.devices.map((device, i) => ({ ...device, userGpuId: 1000 + i }));
  const idle = { ...sameIds, summary: { ...sameIds.summary, devices } };
  const none = await files([kfd], [idle]).restore.open(message([5, 7]));
  assert.deepEqual(none, { args: [fileKind.kfd, 0] });
  assert.deepEqual(asked, []);
  const render = { criu_id: 6, kind: 'render', process: 0, gpu: 0 } as const;
  const busy: [PreparedProcess, readonly ManifestExtFile[]][] = [
    [{ ...idle, kfdBos: 1 }, [kfd]],
    [{ ...idle, summary: { ...idle.summary, numObjects: 1 } }, [kfd]],
    [idle, [kfd, render]],
    [prepared(), [kfd]], // the ids of its GPUs must come back
  ];
  for (const [one, extFiles] of busy) {
    const answer = await files(extFiles, [one]).restore.open(message([5, 7]));
    assert.deepEqual(answer, { args: [fileKind.kfd, 0], fds: [memfd] });
    assert.deepEqual(asked.pop(), [state, [1000, 1001], []]);
  }
});

test('a render file carries the state of a process that has no KFD', async () => {
  const { restore } = files([drm(1)], [prepared()]);
  const { args, fds = [] } = await restore.open(message([6, 7]));
  assert.deepEqual(args, [fileKind.drm, 0, 2, 7]);
  assert.equal(fds.length, 1);
  assert.deepEqual(await bytesOf(fds[0] as Descriptor), state);
  const withKfd = files([kfd, drm(1)], [prepared({ kfdBos: 1 })]);
  assert.deepEqual(await withKfd.restore.open(message([6, 7])), {
    args: [fileKind.render, 0, 2, 7],
  });
  const foreign = files([drm(1)], [prepared({ summary: { ...prepared().summary, devices: [] } })]);
  await assert.rejects(foreign.restore.open(message([6, 7])), {
    code: 'E_PROTOCOL',
    message: 'restore: GPU 1 is not in the state of its process',
  });
  await assert.rejects(files([drm(1, 9)], [prepared()]).restore.open(message([6, 7])), {
    code: 'E_PROTOCOL',
    message: 'restore: process 9 has no state',
  });
});

test('the file that the task opened is its render file, if it is the device', (t) => {
  const { image, restore } = files([kfd], [prepared()]);
  const [null_, zero] = ['/dev/null', '/dev/zero'].map((path) => opened(t, path));
  assert.ok(null_ !== undefined && zero !== undefined);
  const protocol = (reason: string) => ({ code: 'E_PROTOCOL', message: `restore: ${reason}` });
  assert.throws(
    () => restore.renderOpened(message([0, 1, 0])),
    protocol('a render file without its descriptor'),
  );
  assert.throws(
    () => restore.renderOpened(message([3, 1, 0], [null_])),
    protocol('process 3 is not in the image'),
  );
  assert.throws(
    () => restore.renderOpened(message([0, 9, 0], [null_])),
    protocol('process 0 has no GPU 9'),
  );
  assert.throws(() => restore.renderOpened(message([0, 1, 0], [zero])), {
    code: 'E_DEVICE_MOVED',
    message: 'container: its render node is device number 261',
  });
  assert.deepEqual(restore.renderOpened(message([0, 1, 0], [null_])), {});
  assert.deepEqual(restore.renderOpened(message([0, 2, 0], [zero])), {}, 'of another GPU');
  assert.deepEqual(restore.renderOpened(message([0, 1, 7], [null_])), {}, 'another file');
  assert.throws(
    () => restore.renderOpened(message([0, 1, 0], [null_])),
    protocol('a render file of one process opened twice'),
  );
  assert.deepEqual(restore.renderFile(message([0, 1, 0])), { fds: [null_] });
  assert.deepEqual(restore.renderFile(message([0, 2, 0])), { fds: [zero] });
  assert.equal(image.processes.get(0)?.render.size, 3);
});

test('the session opens the file of a GPU that the process only may use, once', (t) => {
  const { restore } = files([kfd], [prepared()]);
  const node = counted();
  const paths: string[] = [];
  t.mock.method(native(), 'openDevice', (path: string) => {
    paths.push(path);
    return node.descriptor;
  });
  for (let n = 0; n < 2; n++) {
    assert.deepEqual(restore.renderFile(message([0, 2, 0])), { fds: [node.descriptor] });
  }
  assert.deepEqual(paths, ['/dev/dri/renderD141']);
});

/** Process 1 owns buffer 4, its BO 2. BO 0 of process 0 and its BO 11 of a render file are that buffer. */
function sharing() {
  const share = { process: 0, buffer: 4 };
  const shares = [
    { ...share, bo_index: 0 },
    { ...share, bo_index: 11 },
  ];
  const at = { process: 1, gpu: 1, size: 4096, kind: 'vram', pages_file: 'x' } as const;
  const buffers = [{ id: 4, bo_index: 2, ...at }];
  const held = { file: drm(0), gpuId: 1, firstBo: 10, bos: 3, readState: async () => state };
  const processes = [prepared({ kfdBos: 10, renderStates: [held] }), peer({ kfdBos: 3 })];
  const dmabuf = { criu_id: 9, kind: 'dmabuf', process: 1, buffer: 4 } as const;
  const kfd1 = { criu_id: 8, kind: 'kfd', process: 1 } as const;
  return files([kfd, kfd1, dmabuf], processes, { shares, buffers });
}

/** The message with the owner's dma-buf. */
function ownerSends({ restore }: ReturnType<typeof sharing>) {
  const { descriptor, closed } = counted(18);
  assert.equal(restore.buffers(message([1], [descriptor], Buffer.from([2, 0, 0, 0]))), undefined);
  assert.equal(closed(), 0);
  return descriptor;
}

test('importers get a shared buffer when its owner has made it, and keep none of their own', async (t) => {
  const all = sharing();
  const { image, restore } = all;
  const asked: unknown[] = [];
  t.mock.method(native(), 'buffersBehind', (...args: unknown[]) => {
    asked.push(args);
    return [{ size: 4096, mmapOffset: 0x5000n }];
  });
  const own = counted(19);
  const kept = counted(20);
  const body = Buffer.from([0, 0, 0, 0, 1, 0, 0, 0]);
  restore.buffers(message([0], [own.descriptor, kept.descriptor], body));
  assert.equal(own.closed(), 1, 'it will be exchanged');
  assert.deepEqual([...(image.processes.get(0)?.dmabufs ?? [])], [[1, kept.descriptor]]);
  let given = 0;
  const wait = async <T>(answer: Promise<T>) => {
    const result = await answer;
    given += 1;
    return result;
  };
  const waiting = [
    wait(restore.importBuffer(message([0, 0]))),
    wait(restore.sharedBo(message([0, 11]))),
  ];
  await new Promise(setImmediate);
  assert.equal(given, 0);
  const dmabuf = ownerSends(all);
  assert.deepEqual(await Promise.all(waiting), [
    { args: [0, 0x5000], fds: [dmabuf] },
    { fds: [dmabuf] },
  ]);
  assert.deepEqual(asked, [['/dev/dri/renderD141', [dmabuf]]]);
  assert.deepEqual(await restore.importBuffer(message([0, 1])), {}, 'one of KFD is shared');
  assert.deepEqual(await restore.importBuffer(message([1, 0])), {});
  await assert.rejects(restore.sharedBo(message([0, 1])), {
    code: 'E_PROTOCOL',
    message: 'restore: BO 1 of process 0 is not shared',
  });
});

test('shared BOs of a render file are named to the addon by their positions', async (t) => {
  const { restore } = sharing();
  const memfd = counted().descriptor;
  const asked: unknown[] = [];
  t.mock.method(native(), 'renderStateForRestore', (...args: unknown[]) => {
    asked.push(args);
    return memfd;
  });
  assert.deepEqual(await restore.renderState(message([0, 0])), {
    args: [1, 1, 7, 10],
    fds: [memfd],
  });
  assert.deepEqual(asked, [[state, 10, [1]]]);
  assert.deepEqual(await restore.renderState(message([0, 1])), { args: [0] });
});

test('who asks for a dma-buf restores its own state first; others get it when it is there', async () => {
  const all = sharing();
  const { image, restore } = all;
  const open = (nsPid: number) => restore.open(message([9, nsPid]));
  assert.deepEqual(await open(7), { args: [fileKind.dmabuf, 5] });
  assert.deepEqual(await open(8), { args: [fileKind.dmabuf, 8] });
  const process = image.processes.get(0);
  assert.ok(process);
  process.upload = Promise.resolve();
  const [restored, withoutGpu] = [open(7), open(99)];
  const dmabuf = ownerSends(all);
  for (const answer of [restored, withoutGpu]) {
    assert.deepEqual(await answer, { args: [fileKind.dmabuf], fds: [dmabuf] });
  }
});

test('a process that had some GPUs of a host opens /dev/kfd behind a filter, once', async (t) => {
  const entered: unknown[] = [];
  let left = 0;
  const filter = { leave: async () => void left++ };
  t.mock.method(native(), 'stateForRestore', () => counted().descriptor);
  t.mock.method(DeviceFilter, 'enter', async (pid: number, gpus: readonly HostGpu[]) => {
    entered.push([pid, gpus.map(({ record }) => record.gpu_id)]);
    return filter;
  });
  const ids = [1000, 1001, 1002];
  const { image, restore } = files([kfd], [prepared({ kfdBos: 1 })], {}, ids);
  const process = image.processes.get(0);
  assert.ok(process);
  for (let n = 0; n < 2; n++) await restore.open(message([5, 7]));
  assert.deepEqual(entered, [[4711, [1000, 1001]]], 'it knew two of three');
  await leaveFilter(process);
  await leaveFilter(process);
  assert.equal(left, 1);
  process.upload = Promise.resolve();
  await restore.open(message([5, 7]));
  assert.equal(entered.length, 1, 'a further file of a process that has its state');
  await files([kfd], [prepared({ kfdBos: 1 })]).restore.open(message([5, 7]));
  assert.equal(entered.length, 1, 'it knew all GPUs');
});
