/** Partitions: one GPU that shows itself as several (compute partition modes of MI300). */

import type { ManifestGpu } from '../manifest/schema.js';

/**
 * The PCI device of a GPU. Partitions have the numbers of functions: kfd_topology.c:kfd_topology_add_device@6.12.117,
 * @7.3.4.
 */
function deviceOf({ location }: ManifestGpu): string {
  return location.slice(0, -'.0'.length);
}

/** `gpus`: all of its host. */
export function isPartition(gpu: ManifestGpu, gpus: readonly ManifestGpu[]): boolean {
  const device = deviceOf(gpu);
  return gpus.some((other) => other.gpu_id !== gpu.gpu_id && deviceOf(other) === device);
}

/**
 * Number of the partition on its device; 0 for a whole GPU. A queue comes back on a partition with the same number
 * only: doorbells of SDMA queues are counted from it, and RESTORE refuses others with EINVAL
 * (kfd_device_queue_manager.c:allocate_doorbell@6.12.117, @7.3.4).
 */
export function partitionOf(gpu: ManifestGpu, gpus: readonly ManifestGpu[]): number {
  return isPartition(gpu, gpus) ? Number(gpu.location.slice(-1)) : 0;
}

/** GPUs with the same link can use each other's memory: a hive (XGMI), or partitions of one device without a hive. */
export function linkOf(gpu: ManifestGpu, gpus: readonly ManifestGpu[]): string | undefined {
  return gpu.hive_id ?? (isPartition(gpu, gpus) ? deviceOf(gpu) : undefined);
}
