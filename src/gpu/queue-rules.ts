/** Queues that kernels save without an error, and then cannot bring back. */

import type { ManifestGpu } from '../manifest/schema.js';
import type { KfdQueue } from './kfd-objects.js';
import { isPartition } from './partitions.js';
import { gfxName } from './properties.js';

/**
 * From this gfx version on the GPU's firmware schedules queues (MES). RESTORE fails there, or crashes the kernel
 * (6.12).
 */
const firstWithMes = 110000;

/** Bytes of one MQD on gfx9: v9_structs.h, struct v9_mqd and v9_sdma_mqd. Each compute die (XCC) has one. */
const mqdBytes = { compute: 2048, sdma: 512, other: 0 } as const;

/** The kernel and all GPUs of the host that saved the queues. */
export interface QueueHost {
  readonly kernelRelease: string;
  readonly gpus: readonly ManifestGpu[];
}

/** A reason for each queue that this kernel cannot restore. `gpuOf` finds the GPU by the id that the process knows. */
export function lostQueues(
  queues: readonly KfdQueue[],
  gpuOf: (gpuId: number) => ManifestGpu | undefined,
  host: QueueHost,
): string[] {
  return queues.flatMap((queue) => {
    const gpu = gpuOf(queue.gpuId);
    const why = gpu === undefined ? unknownGpu(queue) : lostOn(gpu, queue, host);
    return why === undefined ? [] : [`queue ${queue.id} ${why}`];
  });
}

/** An unknown queue is refused: otherwise the container is gone before RESTORE fails. */
function unknownGpu({ gpuId }: KfdQueue): string {
  return `is on GPU ${gpuId}, which the topology of this host does not have`;
}

function lostOn(
  gpu: ManifestGpu,
  queue: KfdQueue,
  { kernelRelease, gpus }: QueueHost,
): string | undefined {
  const { gfx_target_version: gfx, num_xcc: dies } = gpu;
  const generation = Math.floor(gfx / 10_000);
  if (gfx >= firstWithMes) {
    return `is on a ${gfxName(gfx)}: no kernel can bring back queues of gfx11 and later`;
  }
  if (queue.kind === 'compute' && generation === 10 && wantsControlStacks(kernelRelease)) {
    return `is on a ${gfxName(gfx)}: Linux 6.12 from 6.12.108 on does not take back its compute queues`;
  }
  if (dies > 1) return lostOnDies(queue, dies);
  if (queue.kind === 'compute' && isPartition(gpu, gpus) && overrunsPartitions(kernelRelease)) {
    return 'is on a partition of a GPU: RESTORE of this kernel would write past its memory for the queue';
  }
  return undefined;
}

/**
 * Room for the control stack is divided by the XCCs of the whole device, and all of it is written
 * (kfd_process_queue_manager.c:set_queue_properties_from_criu, kfd_mqd_manager_v9.c:restore_mqd_v9_4_3@7.2.13). Kernels
 * divide since 6.16.4, and 7.3.4 divides by the XCCs of the node. Between 7.2.13 and 7.3.4 nobody has looked.
 */
function overrunsPartitions(kernelRelease: string): boolean {
  const [, ...parts] = /^(\d+)\.(\d+)(?:\.(\d+))?/.exec(kernelRelease) ?? [];
  const [major = 0, minor = 0, patch = 0] = parts.map((part) => Number(part ?? 0));
  const release = (major * 1000 + minor) * 1000 + patch;
  return release >= 6_016_004 && release < 7_003_004;
}

/**
 * RESTORE wants the size of control stacks that the topology has, and blobs of gfx10 say 0: EINVAL
 * (kfd_process_queue_manager.c:kfd_criu_restore_queue@6.12.117, kfd_mqd_manager_v10.c:mqd_manager_init_v10). Not so in
 * 6.12.107 and 7.3.4; between 107 and 113 nobody has looked.
 */
function wantsControlStacks(kernelRelease: string): boolean {
  const patch = /^6\.12\.(\d+)/.exec(kernelRelease)?.[1];
  return patch !== undefined && Number(patch) >= 108;
}

/**
 * Of queues on several compute dies. Kernels that save one die alone bring back a compute queue that never runs
 * (kfd_mqd_manager_v9.c:checkpoint_mqd@6.12.117). Kernels that save all refuse them: RESTORE wants the size of one MQD
 * (kfd_process_queue_manager.c:kfd_criu_restore_queue@7.3.4), and answers EINVAL when the container is gone.
 */
function lostOnDies({ kind, mqdBytes: saved }: KfdQueue, dies: number): string | undefined {
  if (saved > mqdBytes[kind]) {
    return `runs on ${dies} compute dies, and this kernel saves it in a form that it does not take back`;
  }
  if (kind !== 'compute') return undefined;
  return `runs on ${dies} compute dies, of which this kernel saves one: it would come back and never run`;
}
