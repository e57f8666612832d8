/** What the plugin has reported about a GPU process of the tree. */

import type { Descriptor, StateSummary } from '../../native.js';

/** An open file of a render node. */
export interface DumpedRender {
  readonly number: number;
  readonly minor: number;
  /** KFD uses the GPU address space of this file. */
  readonly carriesKfd: boolean;
  /** Contents of its state file; missing when it holds nothing. */
  readonly state?: Buffer;
}

/** What the plugin has reported about a GPU process of the tree. */
export interface DumpedProcess {
  readonly ordinal: number;
  readonly pid: number;
  readonly comm: string;
  /** Missing for a process that uses only render nodes: it is not paused. */
  readonly kfd?: Descriptor;
  readonly pidfd: Descriptor;
  /** Bytes of its state file. */
  state?: Buffer;
  /** KFD's BOs, followed by the BOs of its render files. */
  summary?: StateSummary;
  kfdBos?: number;
  readonly renderFiles: DumpedRender[];
  /** BO index to dma-buf. */
  readonly dmabufs: Map<number, Descriptor>;
}
