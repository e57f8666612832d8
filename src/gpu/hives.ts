/**
 * GPUs of one hive are linked by XGMI: each can use the memory of the others. Processes that had
 * several of one hive may have mapped it so, and need GPUs that are linked again.
 */

import type { Manifest, ManifestGpu } from '../manifest/schema.js';
import type { HostGpu } from './host.js';

/** Ordinal of a recorded GPU to the hive here that it has to be in; others may be anywhere. */
export type HiveChoice = ReadonlyMap<number, string>;

/** Far more than real hosts have; where there are more, those beyond are not tried. */
const maxChoices = 4096;

/**
 * Every way to give each group of linked GPUs a hive of this host; one, empty, when there are no groups, or when
 * there are too few GPUs anyway: then a manifest may claim as many groups as it likes.
 */
export function* hiveChoices(
  manifest: Manifest,
  needed: readonly ManifestGpu[],
  present: readonly HostGpu[],
): Generator<HiveChoice> {
  const groups = needed.length > present.length ? [] : linkedGroups(manifest, needed);
  const hives = [...new Set(present.flatMap(({ record }) => record.hive_id ?? []))];
  if (hives.length === 0) hives.push(''); // where nobody is: no group has a place
  const total = Math.min(hives.length ** groups.length, maxChoices);
  for (let choice = 0; choice < total; choice++) {
    let rest = choice;
    yield new Map(
      groups.flatMap((group) => {
        const hive = hives[rest % hives.length] as string;
        rest = Math.floor(rest / hives.length);
        return group.map((ordinal): [number, string] => [ordinal, hive]);
      }),
    );
  }
}

/** Ordinals of GPUs of one hive of which some process saw more than one. */
function linkedGroups(manifest: Manifest, needed: readonly ManifestGpu[]): number[][] {
  const groups = new Map<string, Set<number>>();
  for (const { gpus } of manifest.processes) {
    const seen = needed.filter(({ ordinal }) => gpus.includes(ordinal));
    for (const { ordinal, hive_id } of seen) {
      if (hive_id === undefined || seen.filter((gpu) => gpu.hive_id === hive_id).length < 2)
        continue;
      groups.set(hive_id, (groups.get(hive_id) ?? new Set()).add(ordinal));
    }
  }
  return [...groups.values()].map((group) => [...group]);
}
