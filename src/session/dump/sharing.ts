/** Which BOs are the same buffer. The BO that allocated the buffer stores its contents. */

import { fstatSync } from 'node:fs';
import type { Descriptor, StateSummary } from '../../native.js';
import type { BoPlace, SharedBo } from '../buffers/places.js';
import type { DumpedProcess } from './process.js';

/**
 * The flags of a BO made by IMPORT_DMABUF: VRAM or GTT, writable, executable
 * (amdgpu_amdkfd_gpuvm.c:import_obj_create@6.12.117). A BO with another flag was allocated.
 */
const importFlags = 0xc000_0003;

/**
 * Ranks of the BOs of a buffer; the lowest rank owns it. A render file's BO has the placement that the buffer was
 * created with.
 */
const rank = { allocated: 0, ofRenderFile: 1, imported: 2 } as const;

/** A BO with contents. */
export interface BufferBo extends BoPlace {
  readonly rank: (typeof rank)[keyof typeof rank];
  readonly dmabuf: Descriptor;
  readonly inode: number;
  /** Its GPU on this host; missing when KFD does not list it. */
  readonly gpuId?: number;
  readonly size: number;
  readonly mmapOffset?: bigint;
}

/** The BOs of one buffer, its owner first. */
export type GpuBuffer = readonly BufferBo[];

/**
 * What a BO says about its buffer. BOs with a common name are the same buffer. An mmap offset belongs to one buffer and
 * one GPU (amdgpu_object.h:amdgpu_bo_mmap_offset@7.3.4). A GPU that imports memory of another GPU has an offset of its
 * own for it, and the same dma-buf. Old kernels make a new dma-buf for each export
 * (kfd_chardev.c:criu_get_prime_handle@6.1.192).
 */
function namesOf({ inode, gpuId, mmapOffset }: BufferBo): readonly string[] {
  const names = [`inode ${inode}`];
  if (gpuId !== undefined && mmapOffset !== undefined) names.push(`${gpuId}/${mmapOffset}`);
  return names;
}

/** The buffers of all processes. All dma-bufs must be open. */
export function buffersOf(processes: readonly DumpedProcess[]): GpuBuffer[] {
  const byName = new Map<string, BufferBo[]>();
  for (const bo of processes.flatMap(bosOf)) {
    const names = namesOf(bo);
    const known = new Set(names.flatMap((name) => byName.get(name) ?? []));
    const same = [...known, bo];
    for (const name of same.flatMap(namesOf)) byName.set(name, same);
  }
  return [...new Set(byName.values())].map((bos) =>
    bos.sort((a, b) => a.rank - b.rank || a.process - b.process || a.bo_index - b.bo_index),
  );
}

/** Every BO that shares a buffer and does not own it. */
export function findShares(buffers: readonly GpuBuffer[]): SharedBo[] {
  return buffers.flatMap(([owner, ...others]) =>
    owner === undefined
      ? []
      : others.map((other) => ({ ...placeOf(other), owner: placeOf(owner) })),
  );
}

/** The owner of each buffer, by the inodes of its dma-bufs. */
export function ownersByInode(buffers: readonly GpuBuffer[]): Map<number, BoPlace> {
  return new Map(
    buffers.flatMap((bos) => {
      const [owner] = bos;
      return owner === undefined ? [] : bos.map(({ inode }) => [inode, placeOf(owner)] as const);
    }),
  );
}

/** The BO came from IMPORT_DMABUF. */
export function isImported(bo: BufferBo): boolean {
  return bo.rank === rank.imported;
}

function bosOf({ ordinal, dmabufs, summary }: DumpedProcess): BufferBo[] {
  return [...dmabufs].map(([index, dmabuf]) => {
    const bo = summary?.bos[index];
    const device = summary?.devices.find(({ userGpuId }) => userGpuId === bo?.gpuId);
    return {
      process: ordinal,
      bo_index: index,
      rank: rankOf(bo),
      dmabuf,
      inode: fstatSync(dmabuf.fd).ino,
      ...(device && { gpuId: device.actualGpuId }),
      size: bo?.size ?? 0,
      ...(bo?.mmapOffset !== undefined && { mmapOffset: bo.mmapOffset }),
    };
  });
}

function placeOf({ process, bo_index }: BoPlace): BoPlace {
  return { process, bo_index };
}

function rankOf(bo: StateSummary['bos'][number] | undefined): BufferBo['rank'] {
  if (bo?.allocFlags === undefined) return rank.ofRenderFile;
  return (bo.allocFlags & ~importFlags) !== 0 ? rank.allocated : rank.imported;
}
