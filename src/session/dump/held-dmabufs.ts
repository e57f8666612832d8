/**
 * The dma-bufs that processes of the tree hold open at a checkpoint. A dma-buf has one file and one inode in all
 * processes. The inode leads to its buffer.
 */

import { KfdError } from '../../errors.js';
import type { BoPlace } from '../buffers/places.js';
import type { Message } from '../plugin/message.js';
import { type GpuBuffer, ownersByInode } from './sharing.js';

/** CRIU's file, and the BO that stores the contents of its buffer. */
export interface DmabufFile {
  readonly criuId: number;
  readonly owner: BoPlace;
}

export class HeldDmabufs {
  readonly files: DmabufFile[] = [];
  /** Holders by the dma-buf's inode. */
  readonly #holders = new Map<number, string>();
  #buffers: ReadonlyMap<number, BoPlace> = new Map();

  /** A process has a dma-buf open. */
  hold({ args: [inode = -1, pid, fd], body }: Message): void {
    const holder = `pid ${pid} (${body.toString('utf8')}) holds open as descriptor ${fd}`;
    if (!this.#holders.has(inode)) this.#holders.set(inode, holder);
  }

  /**
   * Finds their buffers among `buffers`. Returns a reason against the checkpoint for each dma-buf without a buffer. A
   * kernel that makes a new dma-buf for each export leaves all of KFD's buffers without one.
   */
  find(buffers: readonly GpuBuffer[]): readonly string[] {
    this.#buffers = ownersByInode(buffers);
    return [...this.#holders]
      .filter(([inode]) => !this.#buffers.has(inode))
      .map(([inode, holder]) => foreign(inode, holder));
  }

  /** CRIU dumps the file of a dma-buf. Throws E_UNSUPPORTED_STATE. */
  file(criuId: number, inode: number): void {
    const owner = this.#buffers.get(inode);
    if (owner === undefined) {
      const reason = foreign(inode, 'is on its way through a socket');
      throw new KfdError('E_UNSUPPORTED_STATE', reason);
    }
    this.files.push({ criuId, owner });
  }
}

function foreign(inode: number, where: string): string {
  return `no process of the container has the buffer of dma-buf inode ${inode}, which ${where}`;
}
