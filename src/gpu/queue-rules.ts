/** Queues that kernels save without an error, and then cannot bring back. */

import type { ManifestGpu } from '../manifest/schema.js';
import type { KfdQueue } from './kfd-objects.js';
import { gfxName } from './properties.js';

/** From this gfx version on GPUs schedule queues by themselves (MES): RESTORE fails there, or crashes the kernel (6.12). */
const firstWithMes = 110000;

/** Bytes of one MQD on gfx9: v9_structs.h, struct v9_mqd and v9_sdma_mqd. Each compute die (XCC) has one. */
const mqdBytes = { compute: 2048, sdma: 512, other: 0 } as const;

/** A reason for each queue that would be lost. `gpuOf` finds the GPU by the id that the process knows. */
export function lostQueues(
  queues: readonly KfdQueue[],
  gpuOf: (gpuId: number) => ManifestGpu | undefined,
): string[] {
  return queues.flatMap((queue) => {
    const gpu = gpuOf(queue.gpuId);
    if (gpu === undefined) return [];
    const { gfx_target_version: gfx, num_xcc: dies } = gpu;
    if (gfx >= firstWithMes) {
      return [
        `queue ${queue.id} is on a ${gfxName(gfx)}: no kernel can bring back queues of gfx11 and later`,
      ];
    }
    if (dies > 1) return lostOnDies(queue, dies);
    return [];
  });
}

/**
 * Of queues on several compute dies. Kernels that save one die alone bring back a compute queue that never runs
 * (kfd_mqd_manager_v9.c:checkpoint_mqd@6.12.117). Kernels that save all refuse them: RESTORE wants the size of one MQD
 * (kfd_process_queue_manager.c:kfd_criu_restore_queue@7.3.4), and answers EINVAL when the container is gone.
 */
function lostOnDies({ id, kind, mqdBytes: saved }: KfdQueue, dies: number): string[] {
  if (saved > mqdBytes[kind]) {
    return [
      `queue ${id} runs on ${dies} compute dies, and this kernel saves it in a form that it does not take back`,
    ];
  }
  if (kind !== 'compute') return [];
  return [
    `queue ${id} runs on ${dies} compute dies, of which this kernel saves one: it would come back and never run`,
  ];
}
