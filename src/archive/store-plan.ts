/** Which stores a new image of a layout takes over, and how many it adds. Sizes are bytes as stored. */

import type { StoreUse } from '../addon/images.js';

/** Stores of one image. Engines and registries allow 127 layers; further checkpoints may add some. */
const mostStores = 64;
/** New stores of one image. Several are sent at once, and fewer bytes go with one that is given up. */
const mostNew = 16;
/** A store is not smaller without need. */
const leastBytes = 64 << 20;
/** A store with less than this part in use is given up: its contents go to a new one. */
const leastLive = 0.5;

export interface StorePlan {
  /** Places in the list of uses. */
  readonly kept: readonly number[];
  readonly added: number;
  /** Of each new store. */
  readonly bytes: number;
}

/** `missing`: contents that no store has. */
export function planStores(uses: readonly StoreUse[], missing: number): StorePlan {
  const worth = [...uses.entries()].filter(
    ([, { live, stored }]) => live > 0 && live >= leastLive * stored,
  );
  // The largest ones stay: what is in the others is to be sent again.
  const byLive = worth.toSorted(([, a], [, b]) => b.live - a.live);
  const all = uses.reduce((sum, { live }) => sum + live, missing);
  for (let count = byLive.length; ; count--) {
    const kept = byLive.slice(0, count);
    const inKept = kept.reduce((sum, [, { live }]) => sum + live, 0);
    const rest = all - inKept;
    const added = Math.min(mostNew, Math.ceil(rest / leastBytes));
    if (kept.length + added > mostStores) continue;
    return {
      kept: kept.map(([place]) => place).toSorted((a, b) => a - b),
      added,
      bytes: Math.ceil(rest / Math.max(1, added)),
    };
  }
}
