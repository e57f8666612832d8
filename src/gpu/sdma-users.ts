/**
 * Processes that have SDMA queues on GPUs of this host, from KFD's sysfs (kfd_process.c:kfd_procfs_queue_show@6.1.192
 * to @7.3.4). It shows type and GPU of each queue, not the number of an SDMA queue on its GPU: taken-slots.ts does.
 */

import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { readTextIfAny } from '../os/files.js';
import type { SdmaSlot } from './sdma-slot.js';

export interface SdmaUser {
  readonly pid: number;
  /** How many SDMA queues it has on one GPU. */
  readonly queues: number;
  /** Their places, as far as they are known; missing: none is. */
  readonly slots?: readonly SdmaSlot[];
}

/** Whether a queue of it may have any place. */
export const isUnclear = ({ queues, slots = [] }: SdmaUser): boolean => slots.length < queues;

/**
 * enum kfd_queue_type of kfd_priv.h: SDMA is 1. SDMA over XGMI is 4 up to 6.12.118, and 3 from 7.2.13 on. No process
 * has queues of the type that was 3 before.
 */
const sdmaTypes: readonly (number | undefined)[] = [1, 3, 4];

/** Users by KFD's id of the GPU; a GPU without users has no entry. `root`: folder of `/sys`. */
export async function readSdmaUsers(root: string): Promise<Map<number, SdmaUser[]>> {
  const folder = join(root, 'sys/class/kfd/kfd/proc');
  const users = new Map<number, SdmaUser[]>();
  const pids = (await names(folder)).filter((name) => /^\d+$/.test(name)).map(Number);
  for (const pid of pids.toSorted((a, b) => a - b)) {
    const gpus = (await queuesOf(join(folder, `${pid}`))).filter(isSdma).map(({ gpuId }) => gpuId);
    for (const gpuId of new Set(gpus)) {
      const queues = gpus.filter((one) => one === gpuId).length;
      users.set(gpuId, [...(users.get(gpuId) ?? []), { pid, queues }]);
    }
  }
  return users;
}

interface Queue {
  readonly type: number | undefined;
  readonly gpuId: number;
}

const isSdma = ({ type }: Queue): boolean => sdmaTypes.includes(type);

/** Since Linux 7 a process can have further contexts, in folders of their own (kfd_create_process_sysfs@7.2.13). */
async function queuesOf(process: string): Promise<Queue[]> {
  const contexts = (await names(process)).filter((name) => /^context_\d+$/.test(name));
  const found: Queue[] = [];
  for (const folder of ['.', ...contexts].map((name) => join(process, name, 'queues'))) {
    for (const queue of await names(folder)) {
      const type = await number(join(folder, queue, 'type'));
      const gpuId = await number(join(folder, queue, 'gpuid'));
      if (gpuId !== undefined) found.push({ type, gpuId });
    }
  }
  return found;
}

/** A process and its files may go at any moment. */
function names(folder: string): Promise<string[]> {
  return readdir(folder).catch(() => []);
}

async function number(path: string): Promise<number | undefined> {
  const text = (await readTextIfAny(path).catch(() => undefined))?.trim() ?? '';
  return /^\d{1,10}$/.test(text) ? Number(text) : undefined;
}
