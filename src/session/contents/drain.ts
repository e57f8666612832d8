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
import type { ParentIndexes } from './parent.js';
import type { TransferContext } from './transfer-context.js';
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

export function transferFile({ name, process, gpu, buffers }: DrainPart): TransferFile {
  const bytes = buffers.reduce((sum, { size }) => sum + size, 0);
  return { name, process, renderNode: renderNode(gpu), bytes };
}

/**
 * Writes one pages file, without what `parent` and other files of the image have, as `frames` tells, after the others
 * of its
 * GPU. Throws E_GPU_IO, E_IO, E_CANCELLED.
 */
export async function drain(
  context: TransferContext,
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

/** The buffers, as a native job takes them. */
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
