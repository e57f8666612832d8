/** Queues that kernels save without an error, and then cannot bring back. */

import type { ManifestGpu } from '../manifest/schema.js';
import type { KfdQueue } from './kfd-objects.js';
import { gfxName } from './properties.js';

/** From this gfx version on GPUs schedule queues by themselves (MES): RESTORE fails there, or crashes the kernel (6.12). */
const firstWithMes = 110000;

/** Bytes of one MQD of a compute queue on gfx9: struct v9_mqd. Each compute die (XCC) has one. */
const mqdBytes = 2048;

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
    if (queue.kind === 'compute' && dies > 1 && queue.mqdBytes < dies * mqdBytes) {
      return [
        `queue ${queue.id} runs on ${dies} compute dies, of which this kernel saves one: it would come back and never run (Linux 7 saves all)`,
      ];
    }
    return [];
  });
}
