/** The staging ring of one transfer, by the configured budget. */

import type { Config } from '../config.js';

/** Content per frame and per slot, bytes (docs/image-format.md allows 1 to 4 MiB). */
export const frameBytes = 2 << 20;

/** More copies in flight than this gain nothing and cost memory. */
const maxSlots = 32;

export function stagingRing(config: Config): { slots: number; slotBytes: number } {
  const affordable = Math.floor((config.staging_mib << 20) / frameBytes);
  return { slots: Math.max(2, Math.min(maxSlots, affordable)), slotBytes: frameBytes };
}
