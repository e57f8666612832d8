/** How much memory KFD gives out on a host. */

import { join } from 'node:path';
import type { ManifestGpu } from '../manifest/schema.js';
import { readTextIfAny } from '../os/files.js';

export interface MemoryLimits {
  /** Bytes of the VRAM of each GPU that KFD keeps back for page tables. */
  readonly vramReserveBytes: number;
  /** Bytes of GTT memory for all processes and GPUs together; undefined when unknown. */
  readonly gttBytes: number | undefined;
}

/** AMDGPU_VM_RESERVED_VRAM: amdgpu_vm.h@6.1.192 to @7.3.4. */
const leastReserve = 8 * 2 ** 20;
/** ESTIMATE_PT_SIZE: amdgpu_amdkfd_gpuvm.c@6.1.192 to @7.3.4. */
const bytesPerReserved = 2 ** 14;
/** Of x86_64, where ttm counts its pages. */
const pageBytes = 4096;

/**
 * Reads the limits below `root`. KFD reserves a part of the host's memory and of all VRAM together
 * (amdgpu_amdkfd_gpuvm.c:amdgpu_amdkfd_reserve_mem_limit@6.12.117, __get_available_memory@7.3.4). Memory that was free
 * when the driver was loaded counts there; here all memory does, which is a little more. GTT memory is limited by ttm,
 * to half of the host's memory by default (ttm_device.c:ttm_global_init@6.12.117, @7.3.4).
 */
export async function readMemoryLimits(
  root: string,
  gpus: readonly ManifestGpu[],
): Promise<MemoryLimits> {
  const meminfo = (await readTextIfAny(join(root, 'proc/meminfo'))) ?? '';
  const total = Number(/^MemTotal:\s+(\d{1,12}) kB$/m.exec(meminfo)?.[1] ?? 0) * 1024;
  // Partitions of one device have PCI functions of their own, and the VRAM of all is one.
  const devices = new Map(gpus.map((gpu) => [gpu.location.replace(/\.\d$/, ''), gpu.vram_bytes]));
  const vram = [...devices.values()].reduce((sum, bytes) => sum + bytes, 0);
  const pages = await readTextIfAny(join(root, 'sys/module/ttm/parameters/pages_limit'));
  const limit = Number(/^(\d{1,12})\s*$/.exec(pages ?? '')?.[1] ?? 0) * pageBytes;
  return {
    vramReserveBytes: Math.max(leastReserve, Math.floor((total + vram) / bytesPerReserved)),
    gttBytes: limit || total / 2 || undefined,
  };
}
