/** What a checkpoint takes from the plugin's messages, and which of them it refuses. */

import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { createLogger } from '../../src/log.js';
import { type Descriptor, native } from '../../src/native.js';
import { DumpRecord } from '../../src/session/dump/record.js';
import type { Message } from '../../src/session/plugin/message.js';
import { fileKind } from '../../src/session/plugin/wire.js';
import { gpuIds, kfdBos, renderBo } from './forged-image.js';
import { renderStateFile, stateFile } from './forged-state.js';
import { hostWith } from './host-builder.js';

const log = createLogger({ level: 'silent' });
const renderState = renderStateFile({ bos: [renderBo] });
const message = (args: number[], fds: Descriptor[] = [], body: string | Buffer = '') =>
  ({ args, fds, body: Buffer.from(body as string) }) as unknown as Message;

/** A process with KFD's state of the first GPU, on a host with another one. */
function sample(t: TestContext) {
  const [first, second] = gpuIds;
  const host = hostWith(
    { gpu_id: first, render_minor: 128 },
    { gpu_id: second, render_minor: 129 },
  );
  const record = new DumpRecord(host, log);
  t.after(() => record.close());
  const pidfd = native().openPidfd(process.pid);
  const kfd = native().memfd(Buffer.from('stands for /dev/kfd'));
  record.addProcess(message([0, process.pid], [pidfd, kfd], 'worker'));
  // The process was restored before: it knows its GPU by another id.
  const state = stateFile({ devices: [[7, first]], bos: kfdBos });
  record.addState(message([0], [native().memfd(state)]));
  return { record, pidfd, kfd, state };
}

const rendering = (number: number, minor: number, carriesKfd: number, state = renderState) =>
  message([0, number, minor, carriesKfd], [native().memfd(state)]);

test('BOs of render files follow those of KFD, with the id that the process knows', (t) => {
  const { record, state } = sample(t);
  record.addRenderFile(message([0, 3, 129, 0]));
  record.addRenderFile(rendering(4, 128, 1));
  const [process] = record.processes;
  assert.ok(process !== undefined);
  assert.deepEqual(process.state, state);
  assert.equal(process.kfdBos, kfdBos.length);
  assert.deepEqual(process.summary?.bos.slice(kfdBos.length), [
    { gpuId: 7, size: renderBo.size, kind: 'vram' },
  ]);
  assert.deepEqual(process.renderFiles, [
    { number: 3, minor: 129, carriesKfd: false },
    { number: 4, minor: 128, carriesKfd: true, state: renderState },
  ]);
  record.addFile(message([10, fileKind.kfd, 0]));
  record.addFile(message([11, fileKind.render, 0, 3]));
  record.addFile(message([12, fileKind.render, 0, 4]));
  assert.deepEqual(record.extFiles, [
    { criu_id: 10, kind: 'kfd', process: 0 },
    { criu_id: 11, kind: 'drm', process: 0, gpu: 1 },
    { criu_id: 12, kind: 'render', process: 0, gpu: 0, render_state: 'render-state-4.img' },
  ]);
});

test('a file of a dma-buf needs a buffer of the container', (t) => {
  const { record } = sample(t);
  assert.throws(() => record.addFile(message([9, fileKind.dmabuf, 4711])), {
    code: 'E_UNSUPPORTED_STATE',
    message: /inode 4711, which is on its way through a socket$/,
  });
  assert.deepEqual(record.extFiles, []);
});

test('messages about what was not announced are refused', (t) => {
  const { record } = sample(t);
  const refused: readonly (readonly [string, () => void])[] = [
    ['a pause without descriptors', () => record.addProcess(message([1, 1], [], 'x'))],
    ['process 3 was not announced', () => record.addState(message([3]))],
    ['process -1 was not announced', () => record.addBuffers(message([]))],
    ['a state without its memfd', () => record.addState(message([0]))],
    ['render file 9 was not announced', () => record.addFile(message([1, fileKind.render, 0, 9]))],
    ['render file 0 was not announced', () => record.addFile(message([1, fileKind.render, 5, 0]))],
    ["renderD200 is none of KFD's GPUs", () => record.addRenderFile(rendering(2, 200, 0))],
    ['renderD129 is no GPU of its process', () => record.addRenderFile(rendering(2, 129, 0))],
    ['0 dma-buf(s) with 4 bytes of BO indices', () => record.addBuffers(message([0], [], 'four'))],
  ];
  for (const [reason, happen] of refused) {
    assert.throws(happen, { code: 'E_PROTOCOL', message: `plugin: ${reason}` });
  }
});

test('at the end every descriptor is closed, and buffers before', (t) => {
  const { record, pidfd, kfd } = sample(t);
  const dmabufs = [1, 2].map((n) => native().memfd(Buffer.alloc(n)));
  const body = Buffer.from([5, 0, 0, 0, 2, 0, 0, 0]);
  record.addBuffers(message([0], dmabufs, body));
  assert.deepEqual(
    [...(record.processes[0]?.dmabufs ?? [])],
    [
      [5, dmabufs[0]],
      [2, dmabufs[1]],
    ],
  );
  record.closeBuffers();
  assert.deepEqual(
    dmabufs.map(({ fd }) => fd),
    [-1, -1],
  );
  assert.ok(pidfd.fd >= 0 && kfd.fd >= 0);
  record.close();
  assert.deepEqual([pidfd.fd, kfd.fd], [-1, -1]);
});
