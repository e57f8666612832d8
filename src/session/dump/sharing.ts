/** BOs that are one buffer: their dma-bufs have the same inode. Its contents are saved once, by the BO that made it. */

import { fstatSync } from 'node:fs';
import type { StateSummary } from '../../native.js';
import type { BoPlace, SharedBo } from '../buffers/places.js';
import type { DumpedProcess } from './process.js';

/**
 * All a BO has when IMPORT_DMABUF made it (amdgpu_amdkfd_gpuvm_import_dmabuf): VRAM or GTT, writable, executable. One
 * with any other flag was allocated.
 */
const importFlags = 0xc000_0003;

/**
 * What a BO of a buffer is; the lowest is its owner. One of a render file has the placement the buffer was made with.
 */
const rank = { allocated: 0, ofRenderFile: 1, imported: 2 } as const;

interface Member extends BoPlace {
  readonly rank: number;
}

/** Every BO of `processes` but the owner of each buffer that has several. Their dma-bufs must all be open. */
export function findShares(processes: readonly DumpedProcess[]): SharedBo[] {
  return [...membersByInode(processes).values()].flatMap((members) => {
    const [owner] = members;
    if (owner === undefined) return [];
    return members.slice(1).map((member) => ({ ...placeOf(member), owner: placeOf(owner) }));
  });
}

/** The owner of each buffer, by the inode of its dma-buf. Their dma-bufs must all be open. */
export function buffersByInode(processes: readonly DumpedProcess[]): Map<number, BoPlace> {
  const owners = [...membersByInode(processes)].flatMap(([inode, [owner]]) =>
    owner === undefined ? [] : [[inode, placeOf(owner)] as const],
  );
  return new Map(owners);
}

/** The BOs that are one buffer; its owner is the first of them. */
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
