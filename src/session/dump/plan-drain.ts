/** The pages files that a dump will write. */

import { KfdError } from '../../errors.js';
import type { Host } from '../../gpu/host.js';
import { pagesFileName } from '../../manifest/names.js';
import type { ManifestBuffer } from '../../manifest/schema.js';
import type { Descriptor } from '../../native.js';
import type { SharedBo } from '../buffers/places.js';
import { type DrainPart, hasContents } from '../contents/drain.js';
import type { DumpedProcess } from './process.js';

/**
 * The pages files of all processes: one for each process and GPU with contents. Buffers are numbered across the whole
 * image. BOs in `shares` have no contents of their own. Throws E_PROTOCOL when a BO with contents came without dma-buf.
 */
export function planDrain(
  host: Host,
  processes: readonly DumpedProcess[],
  shares: readonly SharedBo[],
): DrainPart[] {
  const parts: DrainPart[] = [];
  for (const process of processes) {
    const firstId = parts.reduce((sum, { buffers }) => sum + buffers.length, 0);
    const skipped = new Set(
      shares.filter((share) => share.process === process.ordinal).map(({ bo_index }) => bo_index),
    );
    parts.push(...planProcess(host, process, firstId, skipped));
  }
  return parts;
}

function planProcess(
  host: Host,
  process: DumpedProcess,
  firstId: number,
  skipped: ReadonlySet<number>,
): DrainPart[] {
  const { summary } = process;
  if (summary === undefined) throw new KfdError('E_PROTOCOL', 'plugin: a process without state');
  const parts: DrainPart[] = [];
  let id = firstId;
  for (const device of summary.devices) {
    const gpu = host.gpus.find(({ record }) => record.gpu_id === device.actualGpuId);
    if (gpu === undefined) {
      throw new KfdError('E_GPU_MISMATCH', `gpu ${device.actualGpuId}: not in the topology`);
    }
    const name = pagesFileName(process.ordinal, gpu.record.ordinal);
    const buffers: ManifestBuffer[] = [];
    const places: { dmabuf: Descriptor }[] = [];
    summary.bos.forEach((bo, index) => {
      if (!hasContents(bo.kind) || bo.gpuId !== device.userGpuId || skipped.has(index)) return;
      const dmabuf = process.dmabufs.get(index);
      if (dmabuf === undefined) {
        throw new KfdError('E_PROTOCOL', `plugin: BO ${index} of ${process.comm} has no dma-buf`);
      }
      buffers.push({
        id: id++,
        process: process.ordinal,
        bo_index: index,
        gpu: gpu.record.ordinal,
        size: bo.size,
        kind: bo.kind,
        pages_file: name,
      });
      places.push({ dmabuf });
    });
    if (buffers.length > 0) parts.push({ process: process.ordinal, gpu, name, buffers, places });
  }
  const contents = summary.bos.filter((bo) => hasContents(bo.kind)).length;
  if (id - firstId + skipped.size !== contents) {
    throw new KfdError('E_GPU_MISMATCH', `${process.comm}: has BOs on a GPU KFD does not list`);
  }
  return parts;
}
