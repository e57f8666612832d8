/** Applies kernel-table.ts to queues: of a running process, or of a state file. Pure. */

import type { ManifestGpu } from '../manifest/schema.js';
import {
  type KernelRow,
  kernelTable,
  type Releases,
  readKernels,
  type SavedCondition,
} from './kernel-table.js';
import type { KfdQueue, QueueKind, SavedQueue } from './kfd-objects.js';
import { gfxName } from './properties.js';

/** Bytes of one MQD on gfx9: v9_structs.h, struct v9_mqd and v9_sdma_mqd. Each compute die (XCC) has one. */
export const mqdBytes: Readonly<Record<QueueKind, number>> = { compute: 2048, sdma: 512, other: 0 };

/** The kernel and all GPUs of a host. */
export interface QueueHost {
  readonly kernelRelease: string;
  readonly gpus: readonly ManifestGpu[];
  /** The version of a driver that is not the kernel's own: nobody has read it. */
  readonly driver?: string | undefined;
  /** Module parameters of amdgpu, where they are known. */
  readonly parameters?: ReadonlyMap<string, number>;
  /** Whether RESTORE takes queues on all dies of `gpu`. Asked only for rows with `probed`. */
  readonly takes?: (gpu: ManifestGpu, kind: QueueKind) => boolean;
}

/** What a reason needs to know of a queue. Without `saved` it is a queue of a process that runs. */
export type AnyQueue = Pick<KfdQueue, 'id' | 'gpuId' | 'kind'> & { readonly saved?: SavedQueue };

/**
 * Every reason against these queues, each with all queues that it is about. `gpuOf` finds the GPU by the id that the
 * queues have. A queue on an unknown GPU is refused too: otherwise the container is gone before RESTORE fails.
 */
export function lostQueues(
  queues: readonly AnyQueue[],
  gpuOf: (gpuId: number) => ManifestGpu | undefined,
  host: QueueHost,
): string[] {
  const reasons = new Map<string, number[]>();
  for (const queue of queues) {
    const gpu = gpuOf(queue.gpuId);
    for (const reason of gpu === undefined ? [unknownGpu(queue)] : reasonsOf(gpu, queue, host)) {
      const ids = reasons.get(reason);
      if (ids === undefined) reasons.set(reason, [queue.id]);
      else ids.push(queue.id);
    }
  }
  return [...reasons].map(([reason, ids]) => {
    const [kind = '', rest = ''] = reason.split('|');
    return `${kind} queue${ids.length === 1 ? '' : 's'} ${ids.join(', ')} on ${rest}`;
  });
}

function unknownGpu({ kind, gpuId }: AnyQueue): string {
  return `${kind}|GPU ${gpuId}, which the topology of this host does not have`;
}

/** "kind|rest". */
function reasonsOf(gpu: ManifestGpu, queue: AnyQueue, host: QueueHost): string[] {
  const dies = gpu.num_xcc > 1 ? ` with ${gpu.num_xcc} compute dies` : '';
  const where = `a ${gfxName(gpu.gfx_target_version)}${dies}`;
  return kernelTable
    .filter((row) => row.effect === 'refused' && holds(row, gpu, queue, host))
    .map(({ why, instead }) => `${queue.kind}|${where}: ${why} (instead: ${instead})`);
}

/** Was the driver of this host read, or one that is as good as it? */
export function isReadDriver({ kernelRelease, driver }: QueueHost): boolean {
  return driver === undefined && nearestRead(kernelRelease).isRead;
}

/** The rows about this GPU on this kernel. Some hold for certain queues alone, or depend on the probe. */
export function rowsOf(gpu: ManifestGpu, host: QueueHost): KernelRow[] {
  return kernelTable.filter(
    (row) => inReleases(host.kernelRelease, row.kernels) && isAbout(row, gpu, host),
  );
}

function holds(row: KernelRow, gpu: ManifestGpu, queue: AnyQueue, host: QueueHost): boolean {
  const { kind, saved } = queue;
  if (!row.queues.includes(kind) || !isAbout(row, gpu, host)) return false;
  if (!isOfKernel(row, saved, host)) return false;
  if (row.unreadable === true && saved !== undefined) return false;
  if (row.saved !== undefined && !showsIt(row.saved, saved)) return false;
  if (row.mqds !== undefined && saved !== undefined) {
    if (row.mqds !== (saved.mqdBytes > mqdBytes[kind] ? 'all' : 'one')) return false;
  }
  return row.probed !== true || host.takes?.(gpu, kind) !== true;
}

/** Of a driver that nobody has read, only the saved queue tells how it saves. */
function isOfKernel(row: KernelRow, saved: SavedQueue | undefined, host: QueueHost): boolean {
  if (row.evident === true && saved !== undefined) return true;
  if (row.evident === true && !isReadDriver(host)) return false;
  return inReleases(host.kernelRelease, row.kernels);
}

/** Is the row about this GPU, with these module parameters? */
function isAbout({ gpus, parameter }: KernelRow, gpu: ManifestGpu, host: QueueHost): boolean {
  const { gfx, dies, partition } = gpus;
  const version = gpu.gfx_target_version;
  return (
    (gfx === undefined || (version >= gfx[0] && version < gfx[1])) &&
    (dies === undefined || gpu.num_xcc > 1) &&
    (partition === undefined || isPartition(gpu, host.gpus)) &&
    (parameter === undefined || host.parameters?.get(parameter[0]) === parameter[1])
  );
}

function showsIt(condition: SavedCondition, saved: SavedQueue | undefined): boolean {
  if (saved === undefined) return false;
  return condition === 'area_in_svm_range' ? saved.areaInSvmRange : saved.stoppedWithoutStack;
}

/** A partition has the PCI device of another node; the function is its number (kfd_topology_add_device@6.12.117). */
export function isPartition(gpu: ManifestGpu, gpus: readonly ManifestGpu[]): boolean {
  const device = ({ location }: ManifestGpu) => location.slice(0, -'.0'.length);
  return gpus.some((other) => other.gpu_id !== gpu.gpu_id && device(other) === device(gpu));
}

/** Release candidates count as their release. A release without numbers is in no range with a bound. */
export function inReleases(release: string, ranges: readonly Releases[]): boolean {
  const number = numberOf(release);
  return ranges.some(
    ({ from, before }) =>
      (from === undefined || number >= numberOf(from)) &&
      (before === undefined || number < numberOf(before)),
  );
}

/**
 * The read release that is nearest to this one, and whether their drivers can be taken as equal: the same series, and
 * not newer than what was read of it.
 */
export function nearestRead(release: string): {
  readonly kernel: string;
  readonly isRead: boolean;
} {
  const number = numberOf(release);
  const distance = (kernel: string) => Math.abs(numberOf(kernel) - number);
  const [kernel = ''] = readKernels.toSorted((a, b) => distance(a) - distance(b));
  const inSeries = readKernels
    .map(numberOf)
    .filter((one) => Math.floor(one / 1000) === Math.floor(number / 1000));
  const isRead = number >= Math.min(...inSeries) && number <= Math.max(...inSeries);
  return { kernel, isRead };
}

/** NaN for a text that is no release. */
function numberOf(release: string): number {
  const [, major, minor, patch = '0'] = /^(\d+)\.(\d+)(?:\.(\d+))?/.exec(release) ?? [];
  return (Number(major) * 1000 + Number(minor)) * 1000 + Number(patch);
}
