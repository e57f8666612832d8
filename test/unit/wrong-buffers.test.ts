import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readHost } from '../../src/gpu/host.js';
import type { BufferName, Descriptor } from '../../src/native.js';
import type { DumpedProcess } from '../../src/session/dump/process.js';
import type { BufferBo, GpuBuffer } from '../../src/session/dump/sharing.js';
import { type BuffersBehind, wrongBuffers } from '../../src/session/dump/wrong-buffers.js';
import { dumped, kfdVersion } from './dumped.js';
import { bentHost } from './sysfs-tree.js';

const allocated = 0;
const imported = 2;
const [gpu, otherGpu] = [51966, 47806];

let descriptors = 0;

/** A BO of process 0; its dma-buf has the inode 1 unless told otherwise. */
function bo(changes: Partial<BufferBo>): BufferBo {
  const dmabuf: Descriptor = { fd: ++descriptors, close() {} };
  const own = { process: 0, bo_index: 3, rank: allocated, dmabuf, inode: 1, gpuId: gpu } as const;
  return { ...own, size: 8192, mmapOffset: 0x1000n, ...changes };
}

/** The reasons when each dma-buf leads to the buffer in `names`. */
async function reasons(
  t: Parameters<typeof bentHost>[0],
  buffers: readonly GpuBuffer[],
  names: ReadonlyMap<BufferBo, BufferName>,
): Promise<readonly string[]> {
  const host = await readHost({ root: await bentHost(t, 'two-gpus', {}), kfdVersion });
  const behind: BuffersBehind = (node, dmabufs) => {
    assert.match(node, /^\/dev\/dri\/renderD12[89]$/);
    const all = [...names];
    return dmabufs.map((dmabuf) => all.find(([one]) => one.dmabuf === dmabuf)?.[1] as BufferName);
  };
  const processes: DumpedProcess[] = [dumped(), { ...dumped(), ordinal: 1, pid: 4712 }];
  return wrongBuffers(buffers, processes, host, behind);
}

test('a dma-buf of another buffer is refused with process, BO and GPU', async (t) => {
  const right = bo({});
  const wrongPlace = bo({ process: 1, bo_index: 5, inode: 2, mmapOffset: 0x4000n });
  const wrongSize = bo({ bo_index: 7, inode: 3, gpuId: otherGpu });
  const names = new Map<BufferBo, BufferName>([
    [right, { size: 8192, mmapOffset: 0x1000n }],
    [wrongPlace, { size: 8192, mmapOffset: 0x9000n }],
    [wrongSize, { size: 12288, mmapOffset: 0x1000n }],
  ]);
  assert.deepEqual(await reasons(t, [[right], [wrongPlace], [wrongSize]], names), [
    'pid 4712 (worker): the dma-buf of BO 5 on GPU 51966 leads to another buffer: ' +
      '8192 bytes at 0x9000, not 8192 bytes at 0x4000',
    'pid 4711 (worker): the dma-buf of BO 7 on GPU 47806 leads to another buffer: ' +
      '12288 bytes at 0x1000, not 8192 bytes at 0x1000',
  ]);
});

test('two BOs with one dma-buf and two offsets are no shared buffer: one of them is wrong', async (t) => {
  const owner = bo({});
  const stranger = bo({ process: 1, mmapOffset: 0x4000n });
  const there = { size: 8192, mmapOffset: 0x1000n };
  const both = new Map([owner, stranger].map((one) => [one, there]));
  const found = await reasons(t, [[owner, stranger]], both);
  assert.match(found.join(), /^pid 4712 [^;]*BO 3 [^;]*$/);
  // As an import it would be right on another GPU alone.
  const importer = { ...stranger, rank: imported } as const;
  const same = new Map([owner, importer].map((one) => [one, there]));
  assert.equal((await reasons(t, [[owner, importer]], same)).length, 1);
  // Without CPU access nothing tells which one: both are named.
  const hidden = new Map([owner, stranger].map((one) => [one, { size: 8192 }]));
  assert.equal((await reasons(t, [[owner, stranger]], hidden)).length, 2);
});

test('a buffer without CPU access is compared by its size', async (t) => {
  const hidden = bo({ rank: imported });
  // A render file's BO has no offset then.
  const maker: BufferBo = {
    process: 1,
    bo_index: 9,
    rank: 1,
    inode: 1,
    size: 8192,
    gpuId: gpu,
    dmabuf: { fd: -2, close() {} },
  };
  const names = (size: number) => new Map([maker, hidden].map((one) => [one, { size }]));
  assert.deepEqual(await reasons(t, [[maker, hidden]], names(8192)), []);
  assert.equal((await reasons(t, [[maker, hidden]], names(4096))).length, 2);
  // Where the CPU has access, and should not have, the buffer is another one.
  const visible = new Map([[maker, { size: 8192, mmapOffset: 0x1000n }]]);
  assert.match((await reasons(t, [[maker]], visible)).join(), /not 8192 bytes without CPU access$/);
});

test("an import of another GPU's buffer is right when that buffer is there", async (t) => {
  const owner = bo({});
  const importer = bo({ process: 1, rank: imported, gpuId: otherGpu, mmapOffset: 0x7000n });
  const names = (offset: bigint) =>
    new Map([
      [owner, { size: 8192, mmapOffset: offset }],
      [importer, { size: 8192, mmapOffset: 0xb000n }],
    ]);
  assert.deepEqual(await reasons(t, [[owner, importer]], names(0x1000n)), []);
  assert.equal((await reasons(t, [[owner, importer]], names(0x2000n))).length, 2);
  assert.equal((await reasons(t, [[importer]], names(0x1000n))).length, 1, 'from elsewhere');
});

test('a GPU that cannot be asked fails the checkpoint by its name', async (t) => {
  const host = await readHost({ root: await bentHost(t, 'two-gpus', {}), kfdVersion });
  const broken: BuffersBehind = () => {
    throw Object.assign(new Error('PRIME_FD_TO_HANDLE: Out of memory'), { code: 'KFD_GPU' });
  };
  assert.throws(() => wrongBuffers([[bo({})]], [dumped()], host, broken), {
    code: 'E_GPU_IO',
    message: 'GPU 51966: its buffers cannot be compared: PRIME_FD_TO_HANDLE: Out of memory',
  });
  assert.deepEqual(wrongBuffers([], [dumped()], host, broken), [], 'nobody is asked');
});
