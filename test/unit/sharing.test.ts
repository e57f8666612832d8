import assert from 'node:assert/strict';
import { closeSync, openSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { type BoKind, boKinds } from '../../src/addon/images.js';
import { boFault, buffersOfBos } from '../../src/manifest/buffers.js';
import { inconsistencies } from '../../src/manifest/consistency.js';
import type { Manifest } from '../../src/manifest/schema.js';
import type { Descriptor, StateSummary } from '../../src/native.js';
import { waitingCircle } from '../../src/session/buffers/places.js';
import { HeldDmabufs } from '../../src/session/dump/held-dmabufs.js';
import type { DumpedProcess } from '../../src/session/dump/process.js';
import { buffersOf, findShares } from '../../src/session/dump/sharing.js';
import type { Message } from '../../src/session/plugin/message.js';
import { MadeBuffers } from '../../src/session/restore/made-buffers.js';
import type { Returning } from '../../src/session/restore/returning.js';
import { sampleManifest } from './manifest-sample.js';
import { temporaryFolder } from './paths.js';

const allocated = 0xe000_0001; // VRAM, writable, executable, public
const imported = 0xc000_0001;

/** A process with one BO for each of `bos`: the file in the place of its dma-buf, its flags, GPU and mmap offset. */
function process(
  t: TestContext,
  folder: string,
  ordinal: number,
  bos: readonly (readonly [file: string, flags: number, gpu?: number, mmapOffset?: bigint])[],
): DumpedProcess {
  const dmabufs = new Map<number, Descriptor>();
  bos.forEach(([file], index) => {
    const fd = openSync(join(folder, file), 'a');
    t.after(() => closeSync(fd));
    dmabufs.set(index, { fd, close() {} });
  });
  const summary = {
    devices: [1, 2].map((id) => ({ userGpuId: id, actualGpuId: id + 100 })),
    bos: bos.map(([, allocFlags, gpuId = 1, mmapOffset]) => ({
      gpuId,
      size: 4096,
      kind: 'vram',
      allocFlags,
      ...(mmapOffset !== undefined && { mmapOffset }),
    })),
  } as unknown as StateSummary;
  const closed = { fd: -1, close() {} };
  return {
    ordinal,
    pid: 1,
    comm: 'x',
    kfd: closed,
    pidfd: closed,
    renderFiles: [],
    dmabufs,
    summary,
  };
}

test('one inode is one buffer, and the BO that was allocated takes its contents with it', async (t) => {
  const folder = await temporaryFolder(t);
  const first = process(t, folder, 0, [
    ['own', allocated],
    ['theirs', imported],
  ]);
  const second = process(t, folder, 1, [
    ['theirs', allocated],
    ['other', allocated],
  ]);
  const third = process(t, folder, 2, [['theirs', imported]]);
  const owner = { process: 1, bo_index: 0 };
  assert.deepEqual(findShares(buffersOf([first, second, third])), [
    { process: 0, bo_index: 1, owner },
    { process: 2, bo_index: 0, owner },
  ]);
  assert.deepEqual(findShares(buffersOf([first])), []);
});

test('one offset on one GPU is one buffer, also where each export made a dma-buf of its own', async (t) => {
  const folder = await temporaryFolder(t);
  const first = process(t, folder, 0, [
    ['a', imported, 1, 0x1000n],
    ['b', allocated, 2, 0x1000n], // another GPU counts on its own
  ]);
  const second = process(t, folder, 1, [
    ['c', allocated, 1, 0x2000n],
    ['d', allocated, 1, 0x1000n],
  ]);
  const owner = { process: 1, bo_index: 1 };
  assert.deepEqual(findShares(buffersOf([first, second])), [{ process: 0, bo_index: 0, owner }]);
  // A holder's dma-buf is yet another one there: nothing tells whose it is.
  const dmabufs = new HeldDmabufs();
  dmabufs.hold({ args: [1, 4711, 9], body: Buffer.from('worker') } as unknown as Message);
  assert.match(dmabufs.find(buffersOf([first, second])).join(), /inode 1, which pid 4711/);
});

test('a buffer that another GPU imported is one buffer by its dma-buf, and joins what either name joins', async (t) => {
  const folder = await temporaryFolder(t);
  const owner = process(t, folder, 0, [['one', allocated, 1, 0x1000n]]);
  const peer = process(t, folder, 1, [['one', imported, 2, 0x7000n]]);
  const third = process(t, folder, 2, [['other export', imported, 2, 0x7000n]]);
  const place = { process: 0, bo_index: 0 };
  const shares = [
    { process: 1, bo_index: 0, owner: place },
    { process: 2, bo_index: 0, owner: place },
  ];
  assert.deepEqual(findShares(buffersOf([owner, peer, third])), shares);
  assert.deepEqual(findShares(buffersOf([third, owner, peer])), shares, 'in any order');
});

test('an open dma-buf leads to its buffer, or is refused with whoever holds it', async (t) => {
  const folder = await temporaryFolder(t);
  const importer = process(t, folder, 0, [['theirs', imported]]);
  const owner = process(t, folder, 1, [
    ['other', allocated],
    ['theirs', allocated],
  ]);
  const inodeOf = (file: string) => statSync(join(folder, file)).ino;
  const held = (...inodes: number[]) => {
    const dmabufs = new HeldDmabufs();
    inodes.forEach((inode, i) => {
      const args = [inode, 4711 + i, 9];
      dmabufs.hold({ args, body: Buffer.from('worker') } as unknown as Message);
    });
    return { dmabufs, reasons: dmabufs.find(buffersOf([importer, owner])) };
  };
  const { dmabufs, reasons } = held(inodeOf('theirs'));
  assert.deepEqual(reasons, []);
  dmabufs.file(5, inodeOf('theirs'));
  dmabufs.file(6, inodeOf('other')); // in a socket's queue: nobody holds it
  assert.deepEqual(dmabufs.files, [
    { criuId: 5, owner: { process: 1, bo_index: 1 } },
    { criuId: 6, owner: { process: 1, bo_index: 0 } },
  ]);
  const code = 'E_UNSUPPORTED_STATE';
  assert.throws(() => dmabufs.file(7, 1), { code, message: /inode 1, which is on its way/ });
  const lost = (inode: number, pid: number) =>
    `no process of the container has the buffer of dma-buf inode ${inode}, ` +
    `which pid ${pid} (worker) holds open as descriptor 9`;
  assert.deepEqual(held(inodeOf('other'), 1, 2).reasons, [lost(1, 4712), lost(2, 4713)]);
});

test('who waits for a buffer gets it when it is made, or an error in the end', async () => {
  const manifest: Manifest = {
    ...sampleManifest(),
    buffers: [
      { id: 5, process: 1, bo_index: 2, gpu: 3, size: 8192, kind: 'vram', pages_file: 'x' },
    ],
  };
  const owner = { prepared: {}, render: new Map(), dmabufs: new Map<number, Descriptor>() };
  const returning = new Map([[1, owner as unknown as Returning]]);
  const buffers = new MadeBuffers(manifest, returning, 600);
  const both = Promise.all([buffers.wait(5), buffers.wait(5)]);
  const dmabuf = { fd: 17, close() {} };
  owner.dmabufs.set(2, dmabuf);
  buffers.made({ process: 1, bo_index: 2 });
  assert.deepEqual(await both, [
    { dmabuf, gpu: 3 },
    { dmabuf, gpu: 3 },
  ]);
  await assert.rejects(buffers.wait(6), { code: 'E_PROTOCOL' });
  owner.dmabufs.clear();
  const late = new MadeBuffers(manifest, returning, 0);
  const message = /^BO 2 of process 1, which others share: not made 0 s after/;
  await assert.rejects(late.wait(5), { code: 'E_TIMEOUT', message });
});

test('where all BOs of a buffer were imported the first one has the contents', async (t) => {
  const folder = await temporaryFolder(t);
  const both = process(t, folder, 0, [
    ['one', imported],
    ['one', imported],
  ]);
  assert.deepEqual(findShares(buffersOf([both])), [
    { process: 0, bo_index: 1, owner: { process: 0, bo_index: 0 } },
  ]);
});

test('processes that would wait for each other are found, however long the circle', () => {
  const share = (process: number, owner: number, index: number) => ({
    process,
    bo_index: 0,
    owner: { process: owner, bo_index: index },
  });
  const ofRenderFile = ({ bo_index: index }: { bo_index: number }) => index >= 10;
  const circle = (...shares: readonly (readonly [number, number, number])[]) =>
    waitingCircle(
      shares.map(([process, owner, index]) => share(process, owner, index)),
      ofRenderFile,
    );
  assert.equal(circle(), undefined);
  assert.equal(circle([1, 0, 10], [2, 0, 10], [2, 1, 11]), undefined);
  assert.deepEqual(circle([1, 0, 10], [0, 1, 10]), [1, 0]);
  assert.deepEqual(circle([3, 0, 10], [0, 1, 10], [1, 2, 12], [2, 0, 10]), [0, 1, 2]);
  // Who waits for several is in a circle with one of them, first or last.
  assert.deepEqual(circle([1, 0, 10], [1, 2, 10], [0, 1, 10]), [1, 0]);
  assert.deepEqual(circle([1, 0, 10], [1, 2, 10], [2, 1, 10]), [1, 2]);
  assert.deepEqual(circle([5, 0, 10], [1, 2, 10], [2, 1, 10]), [1, 2]);
  // Of 64 layers each process waits for both of the next one: 2^64 paths, and no circle.
  const layers = Array.from({ length: 64 }, (_, layer) => [0, 1].map((side) => 2 * layer + side));
  const paths = layers
    .slice(1)
    .flatMap((next, layer) =>
      (layers[layer] ?? []).flatMap((from) => next.map((to) => [from, to, 10] as const)),
    );
  assert.equal(circle(...paths), undefined);
  // KFD's buffers are there before anybody waits, and nobody waits for itself.
  assert.equal(circle([1, 0, 9], [0, 1, 10]), undefined);
  assert.equal(circle([1, 1, 10]), undefined);
});

/** Process 0 has a further BO, which is buffer 0. */
function shared(): Manifest {
  const manifest = sampleManifest();
  const [buffer] = manifest.buffers;
  const [owner] = manifest.processes;
  assert.ok(buffer !== undefined && owner !== undefined);
  const bo_index = owner.num_bos;
  const processes = manifest.processes.map((each) =>
    each === owner ? { ...each, num_bos: bo_index + 1 } : each,
  );
  return { ...manifest, processes, shares: [{ process: 0, bo_index, buffer: buffer.id }] };
}

test('shares in a manifest agree with its processes and buffers', () => {
  const manifest = shared();
  assert.deepEqual(inconsistencies(manifest, 100), []);
  const [share] = manifest.shares ?? [];
  assert.ok(share !== undefined);
  const broken = (changes: Partial<typeof share>) =>
    inconsistencies({ ...manifest, shares: [{ ...share, ...changes }] }, 100);
  assert.match(broken({ process: 99 }).join(), /shares\.0\.process: there is no process 99/);
  assert.match(broken({ bo_index: 9999 }).join(), /shares\.0\.bo_index: process 0 has \d+ BOs/);
  assert.match(broken({ buffer: 9999 }).join(), /shares\.0\.buffer: there is no buffer 9999/);
  const [buffer] = manifest.buffers;
  assert.match(
    broken({ bo_index: buffer?.bo_index ?? -1 }).join(),
    /shares\.0\.bo_index: the same BO twice/,
  );
  assert.match(
    inconsistencies({ ...manifest, shares: [share, share] }, 100).join(),
    /shares\.1\.bo_index: the same BO twice/,
  );
});

test('a shared BO has the kind and size of its buffer', () => {
  const manifest: Manifest = {
    ...sampleManifest(),
    buffers: [
      { id: 5, process: 1, bo_index: 0, gpu: 0, size: 8192, kind: 'vram', pages_file: 'x' },
    ],
    shares: [{ process: 0, bo_index: 0, buffer: 5 }],
  };
  const faultOf = (document: Manifest, size: number, kind: BoKind) => {
    const bos = { sizes: Float64Array.of(size), kinds: Uint8Array.of(boKinds.indexOf(kind)) };
    return boFault(bos, buffersOfBos(document).get(0) ?? new Map());
  };
  assert.equal(faultOf(manifest, 8192, 'vram'), undefined);
  assert.match(
    faultOf(manifest, 4096, 'vram') ?? '',
    /BO 0 is vram of 4096 bytes, .* vram of 8192/,
  );
  assert.match(faultOf(manifest, 8192, 'gtt') ?? '', /BO 0 is gtt/);
  assert.match(faultOf({ ...manifest, shares: [] }, 8192, 'vram') ?? '', /no buffer for it/);
});
