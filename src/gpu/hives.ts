/**
 * GPUs of one hive are linked by XGMI: each can use the memory of the others. So can partitions of one device. A
 * process with several GPUs of one hive, or of one device, may have mapped such memory. It needs linked GPUs again.
 */

import type { Manifest, ManifestGpu } from '../manifest/schema.js';
import type { HostGpu } from './host.js';
import { linkOf } from './partitions.js';

/** Recorded GPU to the hive or device of this host that it must be in. Other GPUs may be anywhere. */
export type HiveChoice = ReadonlyMap<number, string>;

/** Far more than on real hosts. Further combinations are not tried. */
const maxChoices = 4096;

/**
 * Every way to assign groups of linked GPUs to hives of this host. Without groups, or with too few GPUs, there is one
 * empty assignment. A hostile manifest may have any number of groups.
 */
export function* hiveChoices(
  manifest: Manifest,
  needed: readonly ManifestGpu[],
  present: readonly HostGpu[],
): Generator<HiveChoice> {
  const groups = needed.length > present.length ? [] : linkedGroups(manifest, needed);
  const records = present.map(({ record }) => record);
  const hives = [...new Set(records.flatMap((record) => linkOf(record, records) ?? []))];
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

/** Groups of GPUs of one hive or device, where some process saw at least two of them. */
function linkedGroups(manifest: Manifest, needed: readonly ManifestGpu[]): number[][] {
  const groups = new Map<string, Set<number>>();
  const links = new Map(needed.map((gpu) => [gpu, linkOf(gpu, manifest.gpus)]));
  for (const { gpus } of manifest.processes) {
    const seen = needed.filter(({ ordinal }) => gpus.includes(ordinal));
    for (const gpu of seen) {
      const link = links.get(gpu);
      if (link === undefined || seen.filter((one) => links.get(one) === link).length < 2) continue;
      groups.set(link, (groups.get(link) ?? new Set()).add(gpu.ordinal));
    }
  }
  return [...groups.values()].map((group) => [...group]);
}
