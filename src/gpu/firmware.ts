/**
 * The firmware of a GPU. MEC, which runs compute queues, reads the saved queue state (MQD). KFD numbers firmware in
 * ascending order: it tests for features by "at least" (kfd_device.c:kfd_gws_init@7.3.4).
 */

import type { ManifestGpu } from '../manifest/schema.js';
import { gpuName, type Mismatch } from './mismatch.js';

/** Members of the record, and of KFD's topology (kfd_topology.c:node_show@7.3.4), with their names for operators. */
const firmware = { fw_version: 'MEC', sdma_fw_version: 'SDMA' } as const;
const members = Object.keys(firmware) as (keyof typeof firmware)[];

/** The versions in the properties of a topology node. Every kernel shows both for a GPU. */
export function firmwareOf(
  properties: ReadonlyMap<string, number>,
): Pick<ManifestGpu, keyof typeof firmware> {
  return Object.fromEntries(
    members.flatMap((member) => {
      const version = properties.get(member);
      return version === undefined ? [] : [[member, version]];
    }),
  );
}

/** A GPU must not have older firmware than the recorded one. Unknown versions are not compared. */
export function firmwareMisfits(recorded: ManifestGpu, present: ManifestGpu): Mismatch[] {
  return members.flatMap((member) => {
    const [was, is] = [recorded[member], present[member]];
    if (was === undefined || is === undefined || is >= was) return [];
    return {
      code: 'E_GPU_MISMATCH',
      message: `${gpuName(recorded)}: ${firmware[member]} firmware was ${was}, is older here: ${is}`,
      hint: 'install the firmware of the source host (linux-firmware) and boot, or decide with ignore_mismatch',
      gpu: recorded.ordinal,
      difference: 'firmware',
    };
  });
}

/** True also where nothing was recorded. */
export function hasSameFirmware(recorded: ManifestGpu, present: ManifestGpu): boolean {
  return members.every((member) => [undefined, present[member]].includes(recorded[member]));
}
