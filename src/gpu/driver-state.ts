/** What amdgpu and KFD tell beside the topology: module parameters, and the queues of a process that runs. */

import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { isMissing } from '../errors.js';
import { readTextIfAny } from '../os/files.js';
import type { AnyQueue } from './kernel-rules.js';
import { queueKind } from './kfd-objects.js';
import { parseProperties } from './properties.js';

/** Parameters of amdgpu that decide what KFD can save. */
export const driverParameters = ['cwsr_enable', 'sched_policy', 'noretry', 'mes'] as const;

/** Their values. A parameter that this driver does not have is missing. */
export async function readParameters(root = '/'): Promise<ReadonlyMap<string, number>> {
  const values = new Map<string, number>();
  for (const name of driverParameters) {
    const text = await readTextIfAny(join(root, 'sys/module/amdgpu/parameters', name));
    const value = Number(text?.trim() || Number.NaN);
    if (Number.isSafeInteger(value)) values.set(name, value);
  }
  return values;
}

/** The version of a driver that is not the kernel's own (DKMS). The kernel's own amdgpu has none. */
export async function driverVersion(root = '/'): Promise<string | undefined> {
  return (await readTextIfAny(join(root, 'sys/module/amdgpu/version')))?.trim();
}

/** HSA_CAP_SVMAPI_SUPPORTED of `capability` in the topology: kfd_sysfs.h. */
const svmCapability = 0x0800_0000;

/** KFD's ids of the GPUs with SVM. There ROCm's compute queues have their save areas in SVM ranges. */
export async function svmGpus(root = '/'): Promise<ReadonlySet<number>> {
  const nodes = join(root, 'sys/class/kfd/kfd/topology/nodes');
  const ids = new Set<number>();
  for (const name of await namesIn(nodes)) {
    const properties = parseProperties((await ifAllowed(join(nodes, name, 'properties'))) ?? '');
    const capability = BigInt(properties.get('capability') ?? 0);
    if ((capability & BigInt(svmCapability)) === 0n) continue;
    ids.add(Number(await ifAllowed(join(nodes, name, 'gpu_id'))));
  }
  return ids;
}

/** KFD answers EPERM for a GPU that the caller's device cgroup does not allow. */
async function ifAllowed(path: string): Promise<string | undefined> {
  return readTextIfAny(path).catch((error: unknown) => {
    if (error instanceof Error && 'code' in error && error.code === 'EPERM') return undefined;
    throw error;
  });
}

/**
 * The queues of process `pid` with KFD's own ids of GPUs, in the order of their ids. Empty where KFD shows none: the
 * state file has them later. The folders are made by kfd_process.c:kfd_procfs_add_queue@6.12.118 and @7.3.4. Contexts
 * beside the first have folders of their own (kfd_process.c:kfd_create_process_sysfs@7.2.13).
 */
export async function queuesOfProcess(pid: number, root = '/'): Promise<AnyQueue[]> {
  const own = join(root, `sys/class/kfd/kfd/proc/${pid}`);
  const queues: AnyQueue[] = [];
  for (const context of ['.', ...(await namesIn(own, /^context_\d+$/))]) {
    const folder = join(own, context, 'queues');
    for (const name of await namesIn(folder)) {
      const type = await readTextIfAny(join(folder, name, 'type'));
      const gpuId = await readTextIfAny(join(folder, name, 'gpuid'));
      // A queue may end while this is read.
      if (type === undefined || gpuId === undefined) continue;
      queues.push({ id: Number(name), gpuId: Number(gpuId), kind: queueKind(Number(type)) });
    }
  }
  return queues.sort((a, b) => a.id - b.id);
}

async function namesIn(folder: string, wanted = /^\d+$/): Promise<string[]> {
  try {
    return (await readdir(folder)).filter((name) => wanted.test(name));
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
}
