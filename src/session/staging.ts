/** The staging ring of one transfer and its workers, by the configured budget. */

import { availableParallelism } from 'node:os';
import type { Config } from '../config.js';

/** Content per frame and per slot, bytes (docs/image-format.md allows 1 to 4 MiB). */
export const frameBytes = 2 << 20;

/** More copies in flight than this gain nothing and cost memory. */
const maxSlots = 32;
/** Workers wait for disks as well as for cores, and from here on only for each other. */
const minWorkers = 4;
const maxWorkers = 16;
/** What a worker may keep beside its slot, frames: compressed content, and that of several buffers. */
const framesPerWorker = 2;

export interface StagingRing {
  readonly slots: number;
  readonly slotBytes: number;
  readonly workers: number;
}

/** `cores`: those this process may use. Half of the budget at most is for the workers. */
export function stagingRing(
  config: Pick<Config, 'staging_mib'>,
  cores = availableParallelism(),
): StagingRing {
  const frames = Math.floor((config.staging_mib << 20) / frameBytes);
  const wanted = Math.max(minWorkers, Math.min(maxWorkers, cores));
  const workers = Math.min(wanted, Math.floor(frames / (2 * framesPerWorker)));
  const slots = Math.min(maxSlots, frames - workers * framesPerWorker);
  return { slots, slotBytes: frameBytes, workers };
}
