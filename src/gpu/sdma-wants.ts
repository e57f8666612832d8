/** Places of SDMA queues that an image needs, and whether a GPU of this host has them free. Pure. */

import type { Manifest, ManifestGpu, ManifestProcess } from '../manifest/schema.js';
import type { HostGpu } from './host.js';
import type { KfdObjects } from './kfd-objects.js';
import { gpuName, type Mismatch } from './mismatch.js';
import { isSlot, named, type SdmaSlot } from './sdma-slot.js';

/** Places that an image needs, by ordinal of the recorded GPU. GPUs without SDMA queues have no entry. */
export type SdmaWants = ReadonlyMap<number, readonly SdmaSlot[]>;

/**
 * What the processes of an image need. `objectsOf`: of the state of a process; undefined when it is not known. Returns
 * undefined when it is not known of a process that may have SDMA queues.
 */
export function wantsOf(
  { gpus, processes }: Manifest,
  objectsOf: (process: ManifestProcess) => KfdObjects | undefined,
): SdmaWants | undefined {
  const wants = new Map<number, SdmaSlot[]>();
  for (const process of processes) {
    if (process.sdma_gpus?.length === 0) continue;
    const objects = objectsOf(process);
    if (objects === undefined) return undefined;
    for (const { slot, gpuId } of objects.queues) {
      if (slot === undefined) continue;
      const actual = objects.devices.get(gpuId);
      const gpu = gpus.find(({ gpu_id: id }) => id === actual);
      if (gpu === undefined) return undefined;
      const slots = wants.get(gpu.ordinal) ?? [];
      slots.push(slot);
      wants.set(gpu.ordinal, slots);
    }
  }
  return wants;
}

/** A reason against `present` for each place on it that the image needs and another process has. */
export function slotMisfits(
  recorded: ManifestGpu,
  present: HostGpu,
  wants: SdmaWants | undefined,
): Mismatch[] {
  const wanted = wants?.get(recorded.ordinal) ?? [];
  return present.sdmaUsers.flatMap(({ pid, slots = [] }) => {
    const both = slots.filter((slot) => wanted.some((one) => isSlot(one, slot)));
    if (both.length === 0) return [];
    return [
      {
        code: 'E_SDMA_SLOT',
        message:
          `${gpuName(recorded)}: pid ${pid} has ${named(both)} of gpu ${present.record.gpu_id} here, ` +
          'and the image needs the same',
        hint: 'stop this process, or choose another GPU with gpu_map',
        gpu: recorded.ordinal,
      },
    ];
  });
}
