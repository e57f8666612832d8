/** Copies of contents that are made while the tree stands still, to be drained when it goes on. */

import { freemem } from 'node:os';
import { native, type Snapshot, type TransferBuffer } from '../../native.js';
import { type DrainPart, renderNode, transferBuffers } from './drain.js';
import type { TransferContext } from './transfer-context.js';

/** Host memory that copies may still take, bytes. Takes what is asked for, or nothing. */
export class HostBudget {
  #left: number;

  /** `available`: bytes of host memory that are free, or could be at once; half of them stay so. */
  constructor(configuredMib: number, available = freemem()) {
    this.#left = Math.min(configuredMib * 2 ** 20, Math.floor(available / 2));
  }

  /** Bytes that were given: `bytes`, or 0. */
  take(bytes: number): number {
    if (bytes > this.#left) return 0;
    this.#left -= bytes;
    return bytes;
  }

  giveBack(bytes: number): void {
    this.#left += bytes;
  }
}

const page = 4096;

/**
 * Copies the contents of `part` aside, after those of others on its GPU. `undefined`: there is no room, neither in
 * VRAM nor
 * in `budget`. Throws E_GPU_IO, E_IO, E_CANCELLED.
 */
export async function takeSnapshot(
  context: TransferContext,
  part: DrainPart,
  budget: HostBudget,
): Promise<Snapshot | undefined> {
  const { config, log, transfers } = context;
  const bytes = part.buffers.reduce((sum, { size }) => sum + Math.ceil(size / page) * page, 0);
  const granted = budget.take(bytes);
  const snapshot = await transfers.run(part.gpu.record.ordinal, `copy of ${part.name}`, (ring) => {
    return new (native().TransferJob)({
      operation: 'snapshot',
      renderNode: renderNode(part.gpu),
      engine: config.engine,
      ...ring,
      hostBytes: granted,
      buffers: transferBuffers(part),
    });
  });
  const { place, wallUs } = snapshot;
  if (place !== 'host') budget.giveBack(granted);
  log.info({ file: part.name, place, bytes, wall_us: wallUs }, 'copied aside');
  return place === 'none' ? undefined : snapshot;
}

/** `part`, to be drained from its copies. */
export function fromSnapshot(part: DrainPart, snapshot: Snapshot): DrainPart {
  const places = snapshot.places.map(({ memory, offset }): DrainPart['places'][number] => {
    return { dmabuf: snapshot.memory[memory] as TransferBuffer['dmabuf'], offset };
  });
  // A memfd is none of the GPU's, and VRAM none of the CPU's.
  return { ...part, places, engine: snapshot.place === 'host' ? 'cpu' : 'sdma' };
}
