/**
 * The types of the native addon, as in native/addon. src/native.ts loads it. Its errors have a `code`: KFD_IO,
 * KFD_CORRUPT, KFD_UNSUPPORTED, KFD_PROTOCOL, KFD_GPU, KFD_CANCELLED.
 */

import type {
  AddonJob,
  BufferName,
  ChainPart,
  FlattenJob,
  PagesCheck,
  PagesListing,
  PagesPart,
  RenderStateFacts,
  RenderStateSummary,
  SiblingCheck,
  StateFacts,
  StateSummary,
  StoresOrder,
  StoresWritten,
  StoreUse,
  ZstdDecoder,
} from './addon/images.js';
import type { ByteLocks } from './addon/locks.js';
import type { Delivery, Descriptor, Listener } from './addon/messages.js';
import type {
  ContentsSender,
  DrainOptions,
  ForwardFileJob,
  ImageFrames,
  ReceivedContents,
  ReceiveJob,
  SendFileJob,
  Snapshot,
  SnapshotOptions,
  StagingClaim,
  StagingRequest,
  TransferJob,
  UploadOptions,
} from './addon/transfers.js';
import type {
  CopyTrialOptions,
  CopyTrialResult,
  PauseTrialResult,
  TrialJob,
} from './addon/trials.js';

export type * from './addon/images.js';
export type * from './addon/locks.js';
export type * from './addon/messages.js';
export type * from './addon/transfers.js';
export type * from './addon/trials.js';

export interface Native {
  readonly Listener: new (path: string, onMessage: (delivery: Delivery) => void) => Listener;
  readonly StagingClaim: new (request: StagingRequest) => StagingClaim;
  /** The file is created if missing. Throws KFD_IO. */
  readonly ByteLocks: new (
    path: string,
  ) => ByteLocks;
  readonly TransferJob: {
    new (options: DrainOptions | UploadOptions): TransferJob;
    new (options: SnapshotOptions): TransferJob<Snapshot>;
  };
  /** `index`: path of a new file that gets everything but the frames. A valid file is added to `siblings`. */
  readonly PagesCheck: new (
    index?: string,
    siblings?: Pick<SiblingCheck, 'problems'>,
  ) => PagesCheck;
  readonly SiblingCheck: new () => SiblingCheck;
  readonly ImageFrames: new () => ImageFrames;
  readonly ContentsSender: new (path: string) => ContentsSender;
  readonly ZstdDecoder: new () => ZstdDecoder;
  openPidfd(pid: number): Descriptor;
  isAlive(pidfd: Descriptor): boolean;
  /** SIGKILL. */
  kill(pidfd: Descriptor): void;
  /** Calls `onExit` once when the process has ended. The returned function stops watching. */
  watchExit(pidfd: Descriptor, onExit: () => void): () => void;
  /** Limits the processes of a cgroup v2 (directory `cgroup`) to these render nodes. Throws KFD_IO. */
  attachDeviceFilter(cgroup: string, renderMinors: readonly number[]): void;
  kfdVersion(): { readonly major: number; readonly minor: number };
  /** Bytes that XSAVE writes at most for the enabled register state; undefined without XSAVE. */
  xsaveBytes(): number | undefined;
  /** Only after a successful RESTORE in `pid`: kernels crash for other processes. */
  kfdResume(pid: number): void;
  /** Attaches to `pid`, unpauses it, detaches. False when it was not paused. */
  kfdUnpause(pid: number, kfd: Descriptor): boolean;
  /**
   * Asks the kernel in child processes whether RESTORE takes a queue with `mqdBytes` bytes of MQDs, where one die has
   * `dieBytes`. `gpus`: all that KFD shows; `type`: enum kfd_queue_type. "unknown": the kernel's answer says nothing of
   * it. Blocks for some milliseconds, at most 40 s. Throws KFD_IO.
   */
  kfdRestoreTakes(queue: {
    readonly gpus: readonly { readonly gpuId: number; readonly renderNode: string }[];
    readonly gpuId: number;
    readonly type: number;
    readonly dieBytes: number;
    readonly mqdBytes: number;
  }): 'yes' | 'no' | 'unknown';
  /** Decodes a state file. Throws KFD_CORRUPT. */
  stateSummary(bytes: Buffer): StateSummary;
  /**
   * Checks that KFD's private data of BOs in a state file is readable. Exchanging a BO for a shared buffer needs it.
   * Throws KFD_UNSUPPORTED, KFD_CORRUPT.
   */
  checkPrivateData(bytes: Buffer): void;
  renderStateSummary(bytes: Buffer): RenderStateSummary;
  /** The same files for verifying, in columns. Throws KFD_CORRUPT. */
  stateFacts(bytes: Buffer): StateFacts;
  renderStateFacts(bytes: Buffer): RenderStateFacts;
  /** Checks a file of `bytes` bytes by its first 128 bytes, before the rest is in memory. Throws KFD_CORRUPT. */
  checkStateHead(head: Buffer, bytes: number): void;
  checkRenderStateHead(head: Buffer, bytes: number): void;
  /**
   * A render state as a memfd for the plugin. The BOs at the positions `shared` become references to buffers of other
   * processes, by `firstBo` and position.
   */
  renderStateForRestore(bytes: Buffer, firstBo: number, shared: readonly number[]): Descriptor;
  /** Opens a device of the host for reading and writing. */
  openDevice(path: string): Descriptor;
  /** The bytes as a memfd for the plugin. */
  memfd(bytes: Buffer): Descriptor;
  /**
   * The state with this host's GPU ids, as a memfd for the plugin. The BOs at the indices `shared` become small: they
   * will be exchanged for buffers of other processes.
   */
  stateForRestore(
    bytes: Buffer,
    actualGpuIds: readonly number[],
    shared: readonly number[],
  ): Descriptor;
  /** The buffers behind `dmabufs`, as the GPU of `renderNode` calls them. Throws KFD_GPU, KFD_IO. */
  buffersBehind(renderNode: string, dmabufs: readonly Descriptor[]): readonly BufferName[];
  /** Makes the pages files of a stream that `descriptor` reads in `folder`, where none of them may be. */
  receiveContents(descriptor: number, folder: string, limits: ReceivedContents): ReceiveJob;
  /** The index of a pages file, checked; frames are not read. */
  /** Reads the file from its start; the descriptor is not used any more. Throws KFD_IO. */
  sendFile(descriptor: number): SendFileJob;
  /**
   * Writes the file of such a stream, of at most `limit` bytes, to the descriptor `file`. Resolves with its bytes.
   * Rejects with KFD_CORRUPT for what is no whole stream, KFD_UNSUPPORTED beyond the limit, KFD_IO, KFD_CANCELLED.
   */
  receiveFile(pipe: number, file: number, limit: number): AddonJob<number>;
  /** The same for a program that takes the file while it arrives. Throws KFD_IO without a pipe. */
  forwardFile(pipe: number, limit: number): ForwardFileJob;
  listPages(path: string): PagesListing;
  /**
   * Checks by the indexes that all frames of the first file are stored: in it, in its parent, which is the next one,
   * and so on, or in others in the folders of these files. Throws KFD_IO, KFD_CORRUPT.
   */
  checkChain(paths: readonly string[]): void;
  /**
   * Writes the new pages file `target` with the contents of `chain`: a pages file, its parent, and so on to the first
   * without parent. A frame that `frames` (the image of `target`) has becomes a reference. Rejects with KFD_CORRUPT
   * when the files do not fit together, KFD_IO.
   */
  flattenPages(chain: readonly ChainPart[], target: string, frames?: ImageFrames): FlattenJob;
  /** What the image of `files` has of `stores`, and bytes that none of them has. Rejects with KFD_CORRUPT, KFD_IO. */
  storeUses(
    files: readonly ChainPart[],
    stores: readonly PagesPart[],
  ): AddonJob<{ readonly missing: number; readonly uses: readonly StoreUse[] }>;
  /**
   * Puts the contents of `files`, all pages files of an image, into new stores as far as `stores` do not have them, and
   * writes `files` anew without contents. Rejects with KFD_CORRUPT, KFD_IO, KFD_UNSUPPORTED for files without digests.
   */
  writeStores(
    files: readonly ChainPart[],
    stores: readonly PagesPart[],
    order: StoresOrder,
  ): AddonJob<StoresWritten>;
  /**
   * Writes known contents to VRAM of its own and reads them back, every byte compared. Rejects with KFD_GPU for a wrong
   * byte or without room, KFD_IO.
   */
  tryCopies(options: CopyTrialOptions): TrialJob<CopyTrialResult>;
  /**
   * Pauses a process that opened /dev/kfd, and unpauses it, `times` times; `betweenUs` microseconds lie between. It is
   * not paused afterwards. Rejects with KFD_GPU, KFD_IO, KFD_UNSUPPORTED.
   */
  tryPauses(pid: number, times: number, betweenUs: number): Promise<PauseTrialResult>;
}
