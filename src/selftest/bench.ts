/** What the stages share: the GPUs under test, how much is moved, and the functions they take from outside. */

import type { Run } from '../os/exec.js';

/** A GPU that the self-test may use. */
export interface TestGpu {
  readonly ordinal: number;
  /** KFD's id. */
  readonly gpuId: number;
  /** Of its render node. */
  readonly minor: number;
  readonly svm: boolean;
}

export const renderNode = ({ minor }: Pick<TestGpu, 'minor'>) => `/dev/dri/renderD${minor}`;

/** How a GPU is called in the report: its number among the GPUs of the host. */
export const gpuName = ({ ordinal }: Pick<TestGpu, 'ordinal'>) => `gpu ${ordinal}`;

export interface Bench {
  readonly gpus: readonly TestGpu[];
  /** Bytes of contents on each GPU. */
  readonly bytes: number;
  /** Folder of the installation. */
  readonly prefix: string;
  /** A folder for large files; it is removed after the last stage. */
  readonly folder: string;
  /** Whether KFD exports buffers. */
  readonly exportsBuffers: boolean;
  /** Folder of the sessions' logs (log_dir). */
  readonly logFolder: string;
  readonly run: Run;
}
