/** A checkpoint of a process with KFD: the plugin and CRIU are played, files play its buffers, the CPU drains. */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import type { Config } from '../../src/config.js';
import { readHost } from '../../src/gpu/host.js';
import { type ContentsSender, type Descriptor, native } from '../../src/native.js';
import { DumpSession } from '../../src/session/dump/session.js';
import { fileKind, messageType } from '../../src/session/plugin/wire.js';
import { type FindContents, preflight } from '../../src/session/restore/preflight.js';
import { kfdVersion } from './dumped.js';
import { content, gpuIds, kfdBos, names, renderBo } from './forged-image.js';
import { renderStateFile, stateFile } from './forged-state.js';
import { temporaryFolder } from './paths.js';
import { playedSession } from './played-session.js';
import { received } from './received.js';
import { bentHost } from './sysfs-tree.js';

/** BO indices with contents, and their bytes. The last one is of the render file. */
export const contents: readonly (readonly [index: number, bytes: Buffer])[] = [
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

/** `own`: of the pages files, if not the image directory; `stream` gets them, too. */
export async function started(
  t: TestContext,
  config: Partial<Config> = {},
  own?: string,
  stream?: ContentsSender,
) {
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
  const request = {
    ...({ operation: 'dump', criuPid: process.pid, image } as const),
    ...(own !== undefined && { contents: own }),
    ...(stream && { stream }),
  };
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

export type Started = Awaited<ReturnType<typeof started>>;

/** The process is paused, and sends its state and its buffers. */
export async function read({ send, pid, dmabufs }: Started): Promise<void> {
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
export async function dumpFiles({ send }: Started): Promise<void> {
  await send(messageType.dumpFile, [5, fileKind.kfd, 0]);
  await send(messageType.dumpFile, [6, fileKind.render, 0, 0]);
  await send(messageType.dumpFile, [7, fileKind.render, 0, 1]);
}

/** The answer to exit(DUMP): 0 to unpause the tree, 1 to leave it paused, 2 to unpause it before the seal. */
export const end = async ({ ask }: Started, result = 0) =>
  (await ask(messageType.dumpEnd, [result, 0])).args;

export const ok = async (answer: ReturnType<Started['ask']>) => {
  const { type, text } = await answer;
  assert.equal(type, messageType.ok, text);
  return text;
};

/** A restore would take the image, and get each content out of it. `find`: where the contents are, if elsewhere. */
export async function assertWhole(
  t: TestContext,
  { image, hostOptions }: Started,
  find?: FindContents,
): Promise<void> {
  const plan = await preflight(image, {}, hostOptions, find);
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
    const [path = '', ...parents] = plan.pages.get(file) ?? [];
    const what = { operation: 'upload', path, parents, renderNode: '', ...ring } as const;
    await new (native().TransferJob)({ ...what, engine: 'cpu', buffers: own }).done;
    for (const [i, { bo_index: index }] of buffers.entries()) {
      const expected = contents.find(([one]) => one === index)?.[1] ?? assert.fail(`BO ${index}`);
      assert.ok((await readFile(paths[i] as string)).equals(expected), `BO ${index}`);
    }
  }
}
