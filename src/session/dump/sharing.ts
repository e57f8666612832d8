/** BOs of one shared buffer have dma-bufs with the same inode. The BO that allocated the buffer stores its contents. */

import { fstatSync } from 'node:fs';
import type { StateSummary } from '../../native.js';
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

interface Member extends BoPlace {
  readonly rank: number;
}

/** Every BO that shares a buffer and does not own it. All dma-bufs must be open. */
export function findShares(processes: readonly DumpedProcess[]): SharedBo[] {
  return [...membersByInode(processes).values()].flatMap((members) => {
    const [owner] = members;
    if (owner === undefined) return [];
    return members.slice(1).map((member) => ({ ...placeOf(member), owner: placeOf(owner) }));
  });
}

/** The owner of each buffer, by the inode of its dma-buf. All dma-bufs must be open. */
export function buffersByInode(processes: readonly DumpedProcess[]): Map<number, BoPlace> {
  const owners = [...membersByInode(processes)].flatMap(([inode, [owner]]) =>
    owner === undefined ? [] : [[inode, placeOf(owner)] as const],
  );
  return new Map(owners);
}

/** The BOs of one buffer, its owner first. */
function membersByInode(processes: readonly DumpedProcess[]): Map<number, Member[]> {
  const buffers = new Map<number, Member[]>();
  for (const { ordinal, dmabufs, summary } of processes) {
    for (const [index, dmabuf] of dmabufs) {
      const { ino } = fstatSync(dmabuf.fd);
      const member = { process: ordinal, bo_index: index, rank: rankOf(summary?.bos[index]) };
      const members = buffers.get(ino);
      if (members === undefined) buffers.set(ino, [member]);
      else members.push(member);
    }
  }
  for (const members of buffers.values()) members.sort((a, b) => a.rank - b.rank);
  return buffers;
}

function placeOf({ process, bo_index }: BoPlace): BoPlace {
  return { process, bo_index };
}

function rankOf(bo: StateSummary['bos'][number] | undefined): number {
  if (bo?.allocFlags === undefined) return rank.ofRenderFile;
  return (bo.allocFlags & ~importFlags) !== 0 ? rank.allocated : rank.imported;
}
