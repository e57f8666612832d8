/** Draining the contents of one process on one GPU into its pages file. */

import { join } from 'node:path';
import { KfdError } from '../../errors.js';
import type { Host, HostGpu } from '../../gpu/host.js';
import { pagesFileName } from '../../manifest/names.js';
import type { ManifestBuffer } from '../../manifest/schema.js';
import {
  type Descriptor,
  type ImageFrames,
  native,
  type TransferBuffer,
  type TransferResult,
} from '../../native.js';
import type { SessionContext } from '../context.js';
import type { DumpedProcess } from '../dump/session.js';
import type { SharedBo } from '../dump/sharing.js';
import type { ParentIndexes } from './parent.js';
import type { TransferFile } from './transfers.js';

/** One pages file to be. */
export interface DrainPart {
  readonly process: number;
  readonly gpu: HostGpu;
  readonly name: string;
  readonly buffers: readonly ManifestBuffer[];
  /** Where their bytes are, in the order of `buffers`. */
  readonly places: readonly Pick<TransferBuffer, 'dmabuf' | 'offset'>[];
  /** The one engine that reaches them; missing: the configured one. */
  readonly engine?: 'sdma' | 'cpu';
}

/** A pages file that is complete. */
export interface DrainedFile extends DrainPart {
  readonly result: TransferResult;
}

/** Only these kinds have bytes that need saving. */
export function hasContents(kind: string): kind is ManifestBuffer['kind'] {
  return kind === 'vram' || kind === 'gtt';
}

/**
 * The pages files of all processes: of each one per GPU that holds contents of it. Buffers are numbered
 * across the whole image; BOs in `shares` have no contents of their own. Throws E_PROTOCOL when a BO with contents came without dma-buf.
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

export function transferFile({ name, process, gpu, buffers }: DrainPart): TransferFile {
  const bytes = buffers.reduce((sum, { size }) => sum + size, 0);
  return { name, process, renderNode: renderNode(gpu), bytes };
}

/**
 * Writes one pages file, without what `parent` and other files of the image have, as `frames` tells, after the others of its
 * GPU. Throws E_GPU_IO, E_IO, E_CANCELLED.
 */
export async function drain(
  context: SessionContext,
  part: DrainPart,
  parent?: ParentIndexes,
  frames?: ImageFrames,
): Promise<DrainedFile> {
  const { config, image, log, transfers } = context;
  const gpu = part.gpu.record.ordinal;
  const result = await transfers.run(gpu, part.name, (ring) => {
    return new (native().TransferJob)({
      operation: 'drain',
      path: join(image, part.name),
      renderNode: renderNode(part.gpu),
      engine: part.engine ?? config.engine,
      ...ring,
      process: part.process,
      gpu,
      compress: config.compress,
      zstdLevel: config.zstd_level,
      ...parent?.optionFor(part.name),
      ...(frames && { frames }),
      buffers: transferBuffers(part),
    });
  });
  log.info({ file: part.name, result }, 'drained');
  return { ...part, result };
}

/** What a native job is told of the buffers. */
export function transferBuffers({ buffers, places }: DrainPart): TransferBuffer[] {
  return buffers.map(({ id, size }, i) => ({
    id,
    size,
    ...(places[i] as DrainPart['places'][number]),
  }));
}

/** Path of a GPU's render node on the host. */
export function renderNode(gpu: HostGpu): string {
  return `/dev/dri/renderD${gpu.record.render_minor}`;
}
