/**
 * Whether the dma-buf of each BO is the dma-buf of that BO. KFD keeps one table of GEM handles for all processes of a
 * GPU. The BOs of a shared buffer have one handle there, and each of them deletes it
 * (amdgpu_amdkfd_gpuvm.c:amdgpu_amdkfd_gpuvm_free_memory_of_gpu@7.3.4). The number may belong to another process by
 * then. CHECKPOINT exports by number (amdgpu_amdkfd_gpuvm.c:kfd_mem_export_dmabuf@7.3.4).
 */

import type { Host, HostGpu } from '../../gpu/host.js';
import { type BufferName, type Descriptor, fromNative } from '../../native.js';
import { renderNode } from '../contents/drain.js';
import type { DumpedProcess } from './process.js';
import { type BufferBo, type GpuBuffer, isImported } from './sharing.js';

/** The addon's: the buffers behind `dmabufs`, as the GPU of `renderNode` calls them. */
export type BuffersBehind = (
  renderNode: string,
  dmabufs: readonly Descriptor[],
) => readonly BufferName[];

/** A reason for each BO whose dma-buf is of another buffer. Throws E_GPU_IO, E_IO. */
export function wrongBuffers(
  buffers: readonly GpuBuffer[],
  processes: readonly DumpedProcess[],
  host: Host,
  behind: BuffersBehind,
): readonly string[] {
  const found = new Map(host.gpus.flatMap((gpu) => namesOn(gpu, buffers.flat(), behind)));
  const who = new Map(processes.map(({ ordinal, pid, comm }) => [ordinal, `pid ${pid} (${comm})`]));
  return buffers.flatMap((buffer) =>
    buffer.flatMap((bo) => {
      const name = found.get(bo);
      if (name === undefined || isRight(bo, name, buffer, found)) return [];
      const of = `BO ${bo.bo_index} on GPU ${bo.gpuId}`;
      const names = `${described(name)}, not ${described(bo)}`;
      return [`${who.get(bo.process)}: the dma-buf of ${of} leads to another buffer: ${names}`];
    }),
  );
}

function namesOn(
  gpu: HostGpu,
  bos: readonly BufferBo[],
  behind: BuffersBehind,
): [BufferBo, BufferName][] {
  const here = bos.filter(({ gpuId }) => gpuId === gpu.record.gpu_id);
  if (here.length === 0) return [];
  const dmabufs = here.map(({ dmabuf }) => dmabuf);
  try {
    const names = behind(renderNode(gpu), dmabufs);
    return here.map((bo, i) => [bo, names[i] as BufferName]);
  } catch (error) {
    throw fromNative(error, `GPU ${gpu.record.gpu_id}: its buffers cannot be compared`);
  }
}

function isRight(
  bo: BufferBo,
  name: BufferName,
  buffer: GpuBuffer,
  found: ReadonlyMap<BufferBo, BufferName>,
): boolean {
  if (name.size !== bo.size) return false;
  // The kernel gives no offset where the CPU has no access (amdgpu_gem.c:amdgpu_mode_dumb_mmap@7.3.4).
  if (name.mmapOffset === undefined) return !buffer.some((other) => contradicts(bo, other));
  if (name.mmapOffset === bo.mmapOffset) return true;
  // Each file that imports another GPU's buffer gets an object with an offset of its own.
  return isImported(bo) && buffer.some((other) => other.gpuId !== bo.gpuId && isOwn(other, found));
}

/** Two BOs of one GPU have one dma-buf, and say that they are two buffers. */
function contradicts(bo: BufferBo, other: BufferBo): boolean {
  if (other.gpuId !== bo.gpuId || other.inode !== bo.inode) return false;
  const offsets = [bo.mmapOffset, other.mmapOffset];
  return !offsets.includes(undefined) && offsets[0] !== offsets[1];
}

function isOwn(bo: BufferBo, found: ReadonlyMap<BufferBo, BufferName>): boolean {
  const offset = found.get(bo)?.mmapOffset;
  return offset !== undefined && offset === bo.mmapOffset;
}

function described({ size, mmapOffset }: BufferName): string {
  const place = mmapOffset === undefined ? 'without CPU access' : `at 0x${mmapOffset.toString(16)}`;
  return `${size} bytes ${place}`;
}
