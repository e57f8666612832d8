/** A GPU process of the tree, as far as the plugin has reported it. */

import type { Descriptor, StateSummary } from '../../native.js';

/** An open file of a render node. */
export interface DumpedRender {
  readonly number: number;
  readonly minor: number;
  /** Its GPU address space is the one KFD uses. */
  readonly carriesKfd: boolean;
  /** Bytes of its state file, when it holds anything. */
  readonly state?: Buffer;
}

/** A GPU process of the tree, as far as the plugin has reported it. */
export interface DumpedProcess {
  readonly ordinal: number;
  readonly pid: number;
  readonly comm: string;
  /** Missing when it uses render nodes alone: it is not paused. */
  readonly kfd?: Descriptor;
  readonly pidfd: Descriptor;
  /** Bytes of its state file. */
  state?: Buffer;
  /** With the BOs of its render files, which are behind those of KFD. */
  summary?: StateSummary;
  kfdBos?: number;
  readonly renderFiles: DumpedRender[];
  /** BO index to dma-buf. */
  readonly dmabufs: Map<number, Descriptor>;
}
