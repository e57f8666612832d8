/** Whether a GPU of this host can replace a recorded GPU. */

import type { Manifest, ManifestGpu } from '../manifest/schema.js';
import { firmwareMisfits } from './firmware.js';
import type { Host, HostGpu } from './host.js';
import { gpuName, type Mismatch } from './mismatch.js';
import { partitionOf } from './partitions.js';
import { gfxName } from './properties.js';

/** Every reason against it; empty when it fits. `vramBytes`: VRAM that the image will allocate. */
export function misfits(recorded: ManifestGpu, vramBytes: number, present: HostGpu): Mismatch[] {
  const found = [
    ...modelMisfits(recorded, present.record),
    ...firmwareMisfits(recorded, present.record),
    ...nodeMisfit(recorded, present),
    ...vramMisfit(recorded, vramBytes, present),
  ];
  return found.map((mismatch) => ({ ...mismatch, gpu: recorded.ordinal }));
}

function modelMisfits(recorded: ManifestGpu, present: ManifestGpu): Mismatch[] {
  const mismatches: Mismatch[] = [];
  const differ = (what: string, was: string | number, is: string | number, hint: string) => {
    if (was === is) return;
    mismatches.push({
      code: 'E_GPU_MISMATCH',
      message: `${gpuName(recorded)}: ${what} was ${was}, is ${is} here`,
      hint,
    });
  };
  const gfx = gfxName(recorded.gfx_target_version);
  differ(
    'gfx version',
    gfx,
    gfxName(present.gfx_target_version),
    `restore on a ${gfx}: code and queue state are of that version`,
  );
  differ(
    'number of compute dies (num_xcc)',
    recorded.num_xcc,
    present.num_xcc,
    'set the compute partition mode of the source host (amd-smi set --compute-partition)',
  );
  differ(
    'simd_count',
    recorded.simd_count,
    present.simd_count,
    'restore on the same GPU model: saved waves are laid out for its compute units',
  );
  return mismatches;
}

/** A partition is replaced by the one with the same number on its device: see partitionOf(). */
export function partitionMisfits(
  recorded: ManifestGpu,
  recordedGpus: readonly ManifestGpu[],
  present: ManifestGpu,
  presentGpus: readonly ManifestGpu[],
): Mismatch[] {
  const was = partitionOf(recorded, recordedGpus);
  const is = partitionOf(present, presentGpus);
  if (was === is) return [];
  return [
    {
      code: 'E_GPU_MISMATCH',
      message: `${gpuName(recorded)}: was partition ${was} of its device, gpu ${present.gpu_id} here is ${is}`,
      hint: `restore on partition ${was} of a GPU in the same partition mode`,
      gpu: recorded.ordinal,
    },
  ];
}

function nodeMisfit(recorded: ManifestGpu, present: HostGpu): Mismatch[] {
  if (present.renderDevice !== undefined) return [];
  return [
    {
      code: 'E_NO_GPU',
      message: `${gpuName(recorded)}: gpu ${present.record.gpu_id} here has no render node`,
      hint: 'see the kernel log for amdgpu',
    },
  ];
}

/** The needed VRAM counts, not the size of the recorded GPU: a smaller GPU with enough room fits. */
function vramMisfit(recorded: ManifestGpu, needed: number, present: HostGpu): Mismatch[] {
  const free = present.vramFreeBytes ?? present.record.vram_bytes;
  if (needed <= free) return [];
  return [
    {
      code: 'E_VRAM',
      message: `${gpuName(recorded)}: ${needed} bytes of VRAM are needed, ${free} are free`,
      hint: 'stop other GPU work on this host, or restore on a GPU with more memory',
    },
  ];
}

/** The limit of GTT memory holds for all GPUs and processes of the host together. */
export function gttMisfits({ buffers }: Manifest, { gttLimitBytes }: Host): Mismatch[] {
  const gtt = buffers.filter(({ kind }) => kind === 'gtt');
  const needed = gtt.reduce((sum, { size }) => sum + size, 0);
  if (gttLimitBytes === undefined || needed <= gttLimitBytes) return [];
  return [
    {
      code: 'E_HOST',
      message: `host: ${needed} bytes of GTT memory are needed, its driver gives out ${gttLimitBytes} at most`,
      hint: 'restore on a host with more memory, or raise ttm.pages_limit and load amdgpu again',
    },
  ];
}

/** Bytes of VRAM the image will allocate, by ordinal of the recorded GPU. */
export function vramNeeded({ gpus, buffers }: Manifest): number[] {
  const bytes = gpus.map(() => 0);
  for (const { kind, gpu, size } of buffers) {
    if (kind === 'vram') bytes[gpu] = (bytes[gpu] ?? 0) + size;
  }
  return bytes;
}
