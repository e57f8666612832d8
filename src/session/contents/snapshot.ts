/** Copies of contents for a short freeze: made while the tree is stopped, drained when it runs again. */

import { freemem } from 'node:os';
import { native, type Snapshot, type TransferBuffer } from '../../native.js';
import { type DrainPart, renderNode, transferBuffers } from './drain.js';
import { type Engine, isEngineError } from './engine.js';
import type { StagingRing } from './staging.js';
import type { TransferContext } from './transfer-context.js';
import type { Replacement } from './transfers.js';

/** Host memory that copies may still take, bytes. A request is granted as a whole or not at all. */
export class HostBudget {
  #left: number;

  /** `available`: bytes of host memory that are free or can be freed at once. Copies use half of it at most. */
  constructor(configuredMib: number, available = freemem()) {
    this.#left = Math.min(configuredMib * 2 ** 20, Math.floor(available / 2));
  }

  /** Bytes granted: `bytes`, or 0. */
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
 * Copies the contents of `part`, after earlier copies on its GPU. `undefined`: there is no room, neither in VRAM nor in
 * `budget`. Throws E_GPU_IO, E_IO, E_CANCELLED.
 */
export async function takeSnapshot(
  context: TransferContext,
  part: DrainPart,
  budget: HostBudget,
): Promise<Snapshot | undefined> {
  const { config, log, transfers } = context;
  const bytes = part.buffers.reduce((sum, { size }) => sum + Math.ceil(size / page) * page, 0);
  const engine = config.engine === 'cpu' ? 'cpu' : 'sdma';
  if (engine === 'cpu' && part.gpu.vramHidden === true) return undefined; // as below
  const start = (engine: Engine, hostBytes: number) => (ring: StagingRing) =>
    new (native().TransferJob)({
      operation: 'snapshot',
      renderNode: renderNode(part.gpu),
      engine,
      ...ring,
      hostBytes,
      buffers: transferBuffers(part),
    });
  // Without SDMA nothing is copied aside. The drain then decides whether the CPU may copy.
  const nothing = (error: unknown): Replacement<Snapshot> => {
    if (!isEngineError(error)) throw error;
    return { reason: error.message, start: start('cpu', 0) };
  };
  const name = `copy of ${part.name}`;
  const copy = (hostBytes: number) =>
    transfers.run(
      part.gpu.record.ordinal,
      name,
      start(engine, hostBytes),
      config.engine === 'auto' ? nothing : undefined,
    );
  const snapshot = await vramOrHost(
    bytes,
    budget,
    copy,
    () => transfers.reasonOf(name) !== undefined,
  );
  const { place, wallUs } = snapshot;
  log.info({ file: part.name, place, bytes, wall_us: wallUs }, 'copied aside');
  return place === 'none' ? undefined : snapshot;
}

/**
 * `copy` to VRAM, else to host memory. Budget is taken only for a copy that has found no VRAM: others may need it at
 * the same time. `hopeless`: no other copy needs to be tried.
 */
export async function vramOrHost<Result extends Pick<Snapshot, 'place'>>(
  bytes: number,
  budget: HostBudget,
  copy: (hostBytes: number) => Promise<Result>,
  hopeless: () => boolean,
): Promise<Result> {
  const inVram = await copy(0);
  if (inVram.place !== 'none' || hopeless()) return inVram;
  const granted = budget.take(bytes);
  if (granted === 0) return inVram;
  const snapshot = await copy(granted);
  if (snapshot.place !== 'host') budget.giveBack(granted);
  return snapshot;
}

/** `part` with its copies as the source of the drain. */
export function fromSnapshot(part: DrainPart, snapshot: Snapshot): DrainPart {
  const places = snapshot.places.map(({ memory, offset }): DrainPart['places'][number] => {
    return { dmabuf: snapshot.memory[memory] as TransferBuffer['dmabuf'], offset };
  });
  // The GPU cannot read a memfd, and the CPU cannot read VRAM.
  return { ...part, places, engine: snapshot.place === 'host' ? 'cpu' : 'sdma' };
}
