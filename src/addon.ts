/**
 * What the native addon offers: shapes are those of native/addon. Types alone, for every module; src/native.ts loads
 * it.
 * Errors thrown by it carry a `code`: KFD_IO, KFD_CORRUPT, KFD_UNSUPPORTED, KFD_PROTOCOL, KFD_GPU, KFD_CANCELLED.
 */

import type {
  ChainPart,
  FlattenJob,
  PagesCheck,
  PagesSummary,
  RenderStateSummary,
  SiblingCheck,
  StateSummary,
  ZstdDecoder,
} from './addon/images.js';
import type { Delivery, Descriptor, Listener } from './addon/messages.js';
import type {
  DrainOptions,
  ImageFrames,
  Snapshot,
  SnapshotOptions,
  StagingClaim,
  StagingRequest,
  TransferJob,
  UploadOptions,
} from './addon/transfers.js';

export type * from './addon/images.js';
export type * from './addon/messages.js';
export type * from './addon/transfers.js';

export interface Native {
  readonly Listener: new (path: string, onMessage: (delivery: Delivery) => void) => Listener;
  readonly StagingClaim: new (request: StagingRequest) => StagingClaim;
  readonly TransferJob: {
    new (options: DrainOptions | UploadOptions): TransferJob;
    new (options: SnapshotOptions): TransferJob<Snapshot>;
  };
  /** `index`: path of a new file that gets all but the frames. A sound file is added to `siblings`. */
  readonly PagesCheck: new (
    index?: string,
    siblings?: Pick<SiblingCheck, 'problems'>,
  ) => PagesCheck;
  readonly SiblingCheck: new () => SiblingCheck;
  readonly ImageFrames: new () => ImageFrames;
  readonly ZstdDecoder: new () => ZstdDecoder;
  openPidfd(pid: number): Descriptor;
  isAlive(pidfd: Descriptor): boolean;
  /** SIGKILL. */
  kill(pidfd: Descriptor): void;
  /** Calls once when the process has ended; the returned function stops watching. */
  watchExit(pidfd: Descriptor, onExit: () => void): () => void;
  /** The processes of the cgroup v2 with directory `cgroup` can open no other render nodes. Throws KFD_IO. */
  attachDeviceFilter(cgroup: string, renderMinors: readonly number[]): void;
  kfdVersion(): { readonly major: number; readonly minor: number };
  /** Only after a successful RESTORE in `pid`: on any other process kernels oops. */
  kfdResume(pid: number): void;
  /** Attaches to `pid`, unpauses, lets go. False when it was not paused. */
  kfdUnpause(pid: number, kfd: Descriptor): boolean;
  /** Decodes a state file. Throws KFD_CORRUPT. */
  stateSummary(bytes: Buffer): StateSummary;
  /**
   * What KFD keeps of BOs in a state file can be read, as exchanging one for a shared buffer needs. Throws
   * KFD_UNSUPPORTED, KFD_CORRUPT.
   */
  checkPrivateData(bytes: Buffer): void;
  renderStateSummary(bytes: Buffer): RenderStateSummary;
  /**
   * A render state as a memfd for the plugin, with the BOs at the positions `shared` named as buffers of others:
   * `firstBo` and position.
   */
  renderStateForRestore(bytes: Buffer, firstBo: number, shared: readonly number[]): Descriptor;
  /** The bytes as a memfd for the plugin. */
  memfd(bytes: Buffer): Descriptor;
  /**
   * The state with this host's GPU ids filled in, as a memfd for the plugin. The BOs at the indices `shared` become
   * small ones: they will be exchanged for buffers of others.
   */
  stateForRestore(
    bytes: Buffer,
    actualGpuIds: readonly number[],
    shared: readonly number[],
  ): Descriptor;
  /** Where a dma-buf's buffer is mapped through the GPU's render node, bytes. Throws KFD_GPU, KFD_IO. */
  gemMmapOffset(renderNode: string, dmabuf: Descriptor): number;
  /** The index of a pages file, checked; frames are not read. */
  listPages(path: string): PagesSummary;
  /**
   * Writes the new pages file `target` with the contents of `chain`: a pages file, its parent, that one's parent, to
   * the
   * one that has none. What `frames` has, of the image that `target` is for, is referred to there. Rejects with
   * KFD_CORRUPT
   * when they do not fit, KFD_IO.
   */
  flattenPages(chain: readonly ChainPart[], target: string, frames?: ImageFrames): FlattenJob;
}
