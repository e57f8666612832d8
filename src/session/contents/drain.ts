/** Draining the contents of one process on one GPU into its pages file. */

import { join } from 'node:path';
import type { HostGpu } from '../../gpu/host.js';
import type { ManifestBuffer } from '../../manifest/schema.js';
import {
  type ImageFrames,
  native,
  type TransferBuffer,
  type TransferResult,
} from '../../native.js';
import { copyWith, type Engine } from './engine.js';
import type { ParentIndexes } from './parent.js';
import type { StagingRing } from './staging.js';
import type { TransferContext } from './transfer-context.js';
import type { TransferFile } from './transfers.js';

/** A pages file that will be written. */
export interface DrainPart {
  readonly process: number;
  readonly gpu: HostGpu;
  readonly name: string;
  readonly buffers: readonly ManifestBuffer[];
  /** The memory with their bytes, in the order of `buffers`. */
  readonly places: readonly Pick<TransferBuffer, 'dmabuf' | 'offset'>[];
  /** The only copy engine that reaches them. Missing: the configured engine. */
  readonly engine?: Engine;
}

/** A complete pages file. */
export interface DrainedFile extends DrainPart {
  readonly result: TransferResult;
  /** Why the CPU copied; missing: the configured engine did. */
  readonly engineReason?: string;
}

/** Only these kinds have bytes that need saving. */
export function hasContents(kind: string): kind is ManifestBuffer['kind'] {
  return kind === 'vram' || kind === 'gtt';
}

export function transferFile({ name, process, gpu, buffers }: DrainPart): TransferFile {
  const bytes = buffers.reduce((sum, { size }) => sum + size, 0);
  return { name, process, renderNode: renderNode(gpu), bytes };
}

/**
 * Writes one pages file, after the other files of its GPU. Frames that `parent` or another file of the image stores are
 * not written again. `ofGpu`: all buffers that will be drained from this GPU. Throws E_GPU_IO, E_IO, E_CANCELLED.
 */
export async function drain(
  context: TransferContext,
  part: DrainPart,
  parent?: ParentIndexes,
  frames?: ImageFrames,
  ofGpu: readonly ManifestBuffer[] = part.buffers,
): Promise<DrainedFile> {
  const { config, contents, log, stream, transfers } = context;
  const gpu = part.gpu.record.ordinal;
  const start = (engine: Engine, ring: StagingRing) =>
    new (native().TransferJob)({
      operation: 'drain',
      path: join(contents, part.name),
      ...(stream && { stream }),
      renderNode: renderNode(part.gpu),
      engine,
      ...ring,
      process: part.process,
      gpu,
      compress: config.compress,
      zstdLevel: config.zstd_level,
      ...parent?.optionFor(part.name),
      ...(frames && { frames }),
      buffers: transferBuffers(part),
    });
  const { engine } = part;
  const result = await (engine === undefined
    ? copyWith(
        context,
        { operation: 'drain', lane: gpu, file: part.name, gpu: part.gpu, buffers: ofGpu },
        start,
      )
    : transfers.run(gpu, part.name, (ring) => start(engine, ring)));
  log.info({ file: part.name, result }, 'drained');
  const engineReason = transfers.reasonOf(part.name);
  return { ...part, result, ...(engineReason !== undefined && { engineReason }) };
}

/** The buffers in the form of a native job. */
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
