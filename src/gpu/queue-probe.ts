/** Asks the kernel whether RESTORE takes queues of several compute dies. */

import type { Native } from '../addon.js';
import type { ManifestGpu } from '../manifest/schema.js';
import { mqdBytes } from './kernel-rules.js';
import type { QueueKind } from './kfd-objects.js';

/** enum kfd_queue_type, for one of each kind. */
const typeOf = { compute: 0, sdma: 1 } as const;

/** `takes` of a QueueHost. The answer for each kind of queue and number of dies is asked for once. */
export function queueProbe(
  gpus: readonly ManifestGpu[],
  restoreTakes: Native['kfdRestoreTakes'],
): (gpu: ManifestGpu, kind: QueueKind) => boolean {
  const answers = new Map<string, boolean>();
  const all = gpus.map((gpu) => ({
    gpuId: gpu.gpu_id,
    renderNode: `/dev/dri/renderD${gpu.render_minor}`,
  }));
  return (gpu, kind) => {
    if (kind === 'other') return false;
    const key = `${kind} ${gpu.num_xcc}`;
    const known = answers.get(key);
    if (known !== undefined) return known;
    const dieBytes = mqdBytes[kind];
    const queue = { gpus: all, gpuId: gpu.gpu_id, type: typeOf[kind], dieBytes };
    const taken = restoreTakes({ ...queue, mqdBytes: dieBytes * gpu.num_xcc }) === 'yes';
    answers.set(key, taken);
    return taken;
  };
}
