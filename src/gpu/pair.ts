/** Which GPU of this host replaces which recorded one. Pure. */

import type { Manifest, ManifestGpu } from '../manifest/schema.js';
import { archiveMinor } from './archive-minor.js';
import { assign } from './assign.js';
import { hasSameFirmware } from './firmware.js';
import { misfits, partitionMisfits, vramNeeded } from './fit.js';
import { type GpuMap, overridesOf } from './gpu-map.js';
import { type HiveChoice, hiveChoices } from './hives.js';
import type { Host, HostGpu } from './host.js';
import { type Difference, isIgnored } from './ignorable.js';
import { gpuName, type Mismatch } from './mismatch.js';
import { linkOf } from './partitions.js';
import { gfxName } from './properties.js';
import { riskyUsers } from './sdma-risks.js';
import { type SdmaWants, slotMisfits } from './sdma-wants.js';

/** A recorded GPU, and the GPU of this host that replaces it. */
export interface GpuPair {
  readonly recorded: ManifestGpu;
  readonly present: HostGpu;
}

export interface Pairing {
  /** In the order of the recorded ordinals, without unmatched GPUs. */
  readonly pairs: readonly GpuPair[];
  /** Why some GPUs are unmatched; empty when every needed GPU is matched. */
  readonly mismatches: readonly Mismatch[];
}

/**
 * Costs. Each outweighs any sum of the smaller ones: a GPU without a match, then a lost property of the
 * score, then another order of the GPUs.
 */
const cost = { unmatched: 2 ** 41, score: 2 ** 25 };

/**
 * Parts of a score. Each outweighs the smaller ones together. A GPU whose SDMA queues may be taken is better than a
 * refusal because of another render node, and worse than an archive that is rewritten.
 */
const lost = { sdma: { movable: 32, asIs: 8 }, node: 16, firmware: 4, location: 2, id: 1 };

/** Some GPUs of the host. */
export interface Offered {
  /** Minors of their render nodes. */
  readonly minors: ReadonlySet<number>;
  /** What names them: "--gpus". */
  readonly by: string;
}

export interface PairingOptions {
  /** Differences of these kinds are no reason against a pair. */
  readonly ignored?: ReadonlySet<Difference>;
  /** The GPUs that may be used; undefined: all of the host. */
  readonly only?: Offered | undefined;
  /** Whether the archive may be rewritten for other device numbers. */
  readonly archive?: 'movable' | 'asIs';
  /** Places that the image needs for SDMA queues; undefined: not known. */
  readonly wants?: SdmaWants | undefined;
}

/** The recorded GPUs that any process could see; the others of the source host do not matter. */
export function neededGpus(manifest: Manifest): ManifestGpu[] {
  const seen = new Set(manifest.processes.flatMap((process) => process.gpus));
  return manifest.gpus.filter((gpu) => seen.has(gpu.ordinal));
}

/**
 * As many pairs as possible, and among those the lowest sum of scores. A score counts another render node (the
 * archive must then be rewritten), SDMA queues of other processes, other firmware, another PCI address and another id.
 * `map` overrides all scores.
 */
export function pairGpus(
  manifest: Manifest,
  host: Host,
  map: GpuMap = {},
  { ignored = new Set(), archive = 'movable', wants, only }: PairingOptions = {},
): Pairing {
  const needed = neededGpus(manifest);
  const present = host.gpus;
  const overrides = overridesOf(map, needed, present);
  const overridden = new Set(overrides.target.values());
  const vram = vramNeeded(manifest);
  const records = present.map(({ record }) => record);
  const links = new Map(present.map((one) => [one, linkOf(one.record, records)]));
  const against = (recorded: ManifestGpu, one: HostGpu) =>
    [
      ...partitionMisfits(recorded, manifest.gpus, one.record, records),
      ...misfits(recorded, vram[recorded.ordinal] ?? 0, one),
      ...slotMisfits(recorded, one, wants),
    ].filter((mismatch) => !isIgnored(mismatch, ignored));
  const isOffered = ({ record }: HostGpu) =>
    only === undefined || only.minors.has(record.render_minor);
  const fits = needed.map((recorded) => present.map((one) => against(recorded, one).length === 0));
  const costOf = (row: number, column: number, hives: HiveChoice): number => {
    const [recorded, one] = [needed[row] as ManifestGpu, present[column]];
    if (one === undefined || fits[row]?.[column] !== true || !isOffered(one)) return cost.unmatched;
    const override = overrides.target.get(recorded.ordinal);
    if (override === undefined ? overridden.has(one) : override !== one) return cost.unmatched;
    const hive = override === undefined ? hives.get(recorded.ordinal) : undefined;
    if (hive !== undefined && hive !== links.get(one)) return cost.unmatched;
    const risky = riskyUsers(manifest, { recorded, present: one }, wants).length > 0;
    const lostSdma = risky ? lost.sdma[archive] : 0;
    return score(manifest, recorded, one, lostSdma) * cost.score + (row - column) ** 2;
  };
  const solve = (hives: HiveChoice) => {
    // Columns beyond the host's GPUs stand for no match.
    const width = Math.max(present.length, needed.length);
    const costs = (row: number, column: number) => costOf(row, column, hives);
    const columns = assign(needed.length, width, costs).map((column, row) =>
      costs(row, column) === cost.unmatched ? -1 : column,
    );
    const sum = columns.reduce(
      (total, column, row) => total + (column === -1 ? cost.unmatched : costs(row, column)),
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
  const unmatched: ManifestGpu[] = [];
  best.columns.forEach((column, row) => {
    const recorded = needed[row] as ManifestGpu;
    const one = present[column];
    if (one === undefined) unmatched.push(recorded);
    else pairs.push({ recorded, present: one });
  });
  const taken = new Set([...overridden, ...pairs.map((pair) => pair.present)]);
  const left = present.filter((one) => isOffered(one) && !taken.has(one));
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
    const override = overrides.target.get(recorded.ordinal);
    if (override !== undefined) return against(recorded, override);
    if (closest === undefined)
      return [nothingLeft(recorded, present.filter(isOffered).length, only)];
    return closest.reasons.length > 0 ? closest.reasons : [notLinked(recorded)];
  };
  return { pairs, mismatches: [...overrides.mismatches, ...unmatched.flatMap(why)] };
}

function score(
  manifest: Manifest,
  recorded: ManifestGpu,
  { record }: HostGpu,
  lostSdma: number,
): number {
  return (
    lostSdma +
    (archiveMinor(manifest, recorded) === record.render_minor ? 0 : lost.node) +
    (hasSameFirmware(recorded, record) ? 0 : lost.firmware) +
    (recorded.location === record.location ? 0 : lost.location) +
    (recorded.gpu_id === record.gpu_id ? 0 : lost.id)
  );
}

/** Free GPUs fit, so only their links are the reason. */
function notLinked(recorded: ManifestGpu): Mismatch {
  return {
    code: 'E_GPU_MISMATCH',
    message:
      `${gpuName(recorded)}: was linked by XGMI or as a partition with others of its process, ` +
      'and here no hive or device has that many that fit',
    hint: 'restore on a host whose GPUs are linked, or decide with gpu_map',
    gpu: recorded.ordinal,
  };
}

function nothingLeft(recorded: ManifestGpu, count: number, only: Offered | undefined): Mismatch {
  const gfx = gfxName(recorded.gfx_target_version);
  const which = only === undefined ? `${count} on this host` : `${count} that ${only.by} names`;
  return {
    code: 'E_NO_GPU',
    message: `${gpuName(recorded)}: no GPU is left for it, of ${which}; it was a ${gfx}`,
    hint:
      only === undefined
        ? `restore on a host with one more ${gfx}`
        : `let ${only.by} name one more ${gfx}`,
    gpu: recorded.ordinal,
  };
}
