/** Which GPU of this host takes the place of which recorded one. Pure. */

import type { Manifest, ManifestGpu } from '../manifest/schema.js';
import { archiveMinor } from './archive-minor.js';
import { assign } from './assign.js';
import { misfits, vramNeeded } from './fit.js';
import { type GpuMap, ordersOf } from './gpu-map.js';
import { type HiveChoice, hiveChoices } from './hives.js';
import type { Host, HostGpu } from './host.js';
import { gpuName, type Mismatch } from './mismatch.js';
import { gfxName } from './properties.js';

/** A recorded GPU and the one of this host that takes its place. */
export interface GpuPair {
  readonly recorded: ManifestGpu;
  readonly present: HostGpu;
}

export interface Pairing {
  /** In the order of the recorded ordinals; those without a counterpart are left out. */
  readonly pairs: readonly GpuPair[];
  /** Why some have none. Empty: every needed GPU has its place. */
  readonly mismatches: readonly Mismatch[];
}

/**
 * Costs, of which the larger outweighs any sum of smaller ones: no place at all, then each likeness
 * that is given up, then leaving the order of the GPUs.
 */
const cost = { noPlace: 2 ** 41, likeness: 2 ** 25 };

/** The recorded GPUs that any process could see; the others of the source host do not matter. */
export function neededGpus(manifest: Manifest): ManifestGpu[] {
  const seen = new Set(manifest.processes.flatMap((process) => process.gpus));
  return manifest.gpus.filter((gpu) => seen.has(gpu.ordinal));
}

/**
 * As many pairs that fit as there can be. Among those the ones with the most likeness: the same
 * render node (then the archive fits as it is), the same PCI address, the same id. `map` wins over all.
 */
export function pairGpus(manifest: Manifest, host: Host, map: GpuMap = {}): Pairing {
  const needed = neededGpus(manifest);
  const present = host.gpus;
  const orders = ordersOf(map, needed, present);
  const ordered = new Set(orders.target.values());
  const vram = vramNeeded(manifest);
  const against = (recorded: ManifestGpu, one: HostGpu) =>
    misfits(recorded, vram[recorded.ordinal] ?? 0, one);
  const fits = needed.map((recorded) => present.map((one) => against(recorded, one).length === 0));
  const costOf = (row: number, column: number, hives: HiveChoice): number => {
    const [recorded, one] = [needed[row] as ManifestGpu, present[column]];
    if (one === undefined || fits[row]?.[column] !== true) return cost.noPlace;
    const order = orders.target.get(recorded.ordinal);
    if (order === undefined ? ordered.has(one) : order !== one) return cost.noPlace;
    const hive = order === undefined ? hives.get(recorded.ordinal) : undefined;
    if (hive !== undefined && hive !== one.record.hive_id) return cost.noPlace;
    return unlikeness(manifest, recorded, one) * cost.likeness + (row - column) ** 2;
  };
  const solve = (hives: HiveChoice) => {
    // Columns beyond the host's GPUs are places for those who find none.
    const width = Math.max(present.length, needed.length);
    const costs = (row: number, column: number) => costOf(row, column, hives);
    const columns = assign(needed.length, width, costs).map((column, row) =>
      costs(row, column) === cost.noPlace ? -1 : column,
    );
    const sum = columns.reduce(
      (total, column, row) => total + (column === -1 ? cost.noPlace : costs(row, column)),
      0,
    );
    return { columns, sum };
  };
  let best = { columns: needed.map(() => -1), sum: Number.POSITIVE_INFINITY };
  for (const hives of hiveChoices(manifest, needed, present)) {
    const found = solve(hives);
    if (found.sum < best.sum) best = found;
  }
  const pairs: GpuPair[] = [];
  const homeless: ManifestGpu[] = [];
  best.columns.forEach((column, row) => {
    const recorded = needed[row] as ManifestGpu;
    const one = present[column];
    if (one === undefined) homeless.push(recorded);
    else pairs.push({ recorded, present: one });
  });
  const taken = new Set([...ordered, ...pairs.map((pair) => pair.present)]);
  const left = present.filter((one) => !taken.has(one));
  const why = (recorded: ManifestGpu): readonly Mismatch[] => {
    const minor = archiveMinor(manifest, recorded);
    const [closest] = left
      .map((one) => ({
        reasons: against(recorded, one),
        sameNode: one.record.render_minor === minor,
      }))
      .sort(
        (a, b) => Number(b.sameNode) - Number(a.sameNode) || a.reasons.length - b.reasons.length,
      );
    const order = orders.target.get(recorded.ordinal);
    if (order !== undefined) return against(recorded, order);
    if (closest === undefined) return [nothingLeft(recorded, present.length)];
    return closest.reasons.length > 0 ? closest.reasons : [notLinked(recorded)];
  };
  return { pairs, mismatches: [...orders.mismatches, ...homeless.flatMap(why)] };
}

function unlikeness(manifest: Manifest, recorded: ManifestGpu, { record }: HostGpu): number {
  return (
    (archiveMinor(manifest, recorded) === record.render_minor ? 0 : 4) +
    (recorded.location === record.location ? 0 : 2) +
    (recorded.gpu_id === record.gpu_id ? 0 : 1)
  );
}

/** GPUs that fit are left, so only the links are against them. */
function notLinked(recorded: ManifestGpu): Mismatch {
  return {
    code: 'E_GPU_MISMATCH',
    message:
      `${gpuName(recorded)}: was linked by XGMI with others of its process, ` +
      'and here no hive has that many that fit',
    hint: 'restore on a host whose GPUs are linked, or decide with gpu_map',
    gpu: recorded.ordinal,
  };
}

function nothingLeft(recorded: ManifestGpu, here: number): Mismatch {
  const gfx = gfxName(recorded.gfx_target_version);
  return {
    code: 'E_NO_GPU',
    message: `${gpuName(recorded)}: no GPU is left for it, of ${here} on this host; it was a ${gfx}`,
    hint: `restore on a host with one more ${gfx}`,
    gpu: recorded.ordinal,
  };
}
