/**
 * SDMA queues of other processes that may stop a restore. A queue comes back under its recorded number on the GPU, and
 * RESTORE fails with EBUSY when that is taken (kfd_device_queue_manager.c:allocate_sdma_queue@6.12.117, @7.3.4). New
 * queues get the lowest free numbers, so any other process is likely to have them. Where the host does not show who has
 * which, it is a risk; else sdma-wants.ts judges. Pure.
 */

import { KfdError } from '../errors.js';
import type { Manifest, ManifestGpu } from '../manifest/schema.js';
import type { HostGpu } from './host.js';
import { gpuName, type Mismatch } from './mismatch.js';
import { isUnclear, type SdmaUser } from './sdma-users.js';
import type { SdmaWants } from './sdma-wants.js';

/** Whether a process has SDMA queues on a recorded GPU. Manifests without that knowledge: yes, as ROCr's have. */
export function hasSdmaQueues({ processes }: Manifest, { ordinal }: ManifestGpu): boolean {
  return processes.some(({ gpus, sdma_gpus: known = gpus }) => known.includes(ordinal));
}

/** A recorded GPU, and the GPU that replaces it. */
interface Pair {
  readonly recorded: ManifestGpu;
  readonly present: HostGpu;
}

/**
 * Processes whose SDMA queues may have the numbers that an image needs on `recorded`: all of them when either is not
 * known.
 */
export function riskyUsers(
  manifest: Manifest,
  { recorded, present }: Pair,
  wants: SdmaWants | undefined,
): readonly SdmaUser[] {
  if (!hasSdmaQueues(manifest, recorded)) return [];
  return wants === undefined ? present.sdmaUsers : present.sdmaUsers.filter(isUnclear);
}

/** A warning for each GPU where other processes have SDMA queues whose numbers may be needed. */
export function sdmaRisks(
  manifest: Manifest,
  pairs: readonly Pair[],
  wants?: SdmaWants,
): Mismatch[] {
  return pairs
    .map((pair) => ({ ...pair, users: riskyUsers(manifest, pair, wants) }))
    .filter(({ users }) => users.length > 0)
    .map(({ recorded, present: { record }, users }) => ({
      code: 'E_GPU_IO',
      message:
        `${gpuName(recorded)}: ${listed(users)} on gpu ${record.gpu_id} here; ` +
        'RESTORE fails with EBUSY when they are queues with recorded numbers',
      hint: 'stop these processes, or choose another GPU with gpu_map',
      gpu: recorded.ordinal,
    }));
}

/** A failure of RESTORE in a task, with the likely reason of EBUSY as its hint. */
export function withRisks(error: KfdError, risks: readonly Mismatch[]): KfdError {
  if (risks.length === 0 || !/KFD RESTORE: .*busy/.test(error.message)) return error;
  const hint = risks.map(({ message, hint: step }) => `${message}: ${step}`).join('; ');
  return new KfdError(error.code, error.message, { hint });
}

function listed(users: readonly SdmaUser[]): string {
  return users.map(({ pid, queues }) => `pid ${pid} has ${queues} SDMA queue(s)`).join(', ');
}
