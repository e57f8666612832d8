/**
 * The native addon, in the one file that loads it. Shapes here are those of native/addon.
 * Errors thrown by it carry a `code`: KFD_IO, KFD_CORRUPT, KFD_UNSUPPORTED, KFD_PROTOCOL, KFD_GPU,
 * KFD_CANCELLED.
 */

import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type ErrorCode, KfdError } from './errors.js';

/** A file descriptor; closed by `close()` or, late, by the garbage collector. */
export interface Descriptor {
  /** -1 once closed. */
  readonly fd: number;
  close(): void;
}

/** What a `Listener` delivers: a message, or the end of a peer. */
export type Delivery =
  | {
      readonly peer: number;
      /** Host pid of the sender, as the kernel told when it connected. */
      readonly pid: number;
      readonly type: number;
      readonly args: readonly number[];
      readonly body: Buffer;
      readonly fds: readonly Descriptor[];
      readonly closed?: undefined;
    }
  | {
      readonly peer: number;
      readonly pid: number;
      readonly closed: true;
      readonly reason?: string;
    };

export interface Listener {
  /** Throws KFD_IO when the peer is gone. */
  reply(
    peer: number,
    type: number,
    args: readonly number[],
    text: string,
    fds: readonly Descriptor[],
  ): void;
  close(): void;
}

export interface TransferBuffer {
  readonly id: number;
  /** Bytes. */
  readonly size: number;
  readonly dmabuf: Descriptor;
  /** Where its content begins in the dma-buf, bytes; a multiple of 4096. Missing: at 0. */
  readonly offset?: number;
}

interface TransferOptions {
  readonly renderNode: string;
  readonly engine: 'auto' | 'sdma' | 'cpu';
  /** Staging ring: `slots` pieces of `slotBytes`, pinned. */
  readonly slots: number;
  readonly slotBytes: number;
  /** Threads that read or write and code frames; each may keep two pieces of `slotBytes`. */
  readonly workers: number;
  readonly buffers: readonly TransferBuffer[];
}

export interface DrainOptions extends TransferOptions {
  readonly operation: 'drain';
  /** The pages file. */
  readonly path: string;
  readonly process: number;
  readonly gpu: number;
  readonly compress: 'none' | 'auto' | 'lz4' | 'zstd';
  readonly zstdLevel: number;
  /** Path of the parent's pages file, or of its index: what it has is not stored again. */
  readonly parent?: string;
  /** Of the image: what its other files have is not stored again. */
  readonly frames?: ImageFrames;
}

/** What the pages files of one image have stored, shared by the jobs that write them. */
export type ImageFrames = object;

export interface UploadOptions extends TransferOptions {
  readonly operation: 'upload';
  /** The pages file. Others in its folder are read where it refers to them. */
  readonly path: string;
}

export interface SnapshotOptions extends TransferOptions {
  readonly operation: 'snapshot';
  /** Most of host memory that it may take; VRAM comes first. */
  readonly hostBytes: number;
}

/** Copies of buffers, which go when `memory` is closed. */
export interface Snapshot {
  /** none: there was no room. */
  readonly place: 'vram' | 'host' | 'none';
  /** dma-bufs, or a memfd. */
  readonly memory: readonly Descriptor[];
  /** In the order of the buffers: index in `memory`, and offset there. */
  readonly places: readonly { readonly memory: number; readonly offset: number }[];
  readonly wallUs: number;
}

export interface PagesSummary {
  readonly contentBytes: number;
  readonly fileBytes: number;
  readonly frames: number;
  readonly zeroFrames: number;
  /** Frames whose contents are in the parent. */
  readonly references: number;
  /** Frames whose contents are in other files of the image. */
  readonly siblings: number;
  /** Frames have digests: the file can be a parent. */
  readonly digests: boolean;
  /** XXH3-128 over the index, hex. */
  readonly root: string;
  /** The root of the parent, if it has one. */
  readonly parent?: string;
}

/** A file, or a part of one. Bytes. */
export interface FilePart {
  readonly path: string;
  readonly offset: number;
  readonly size: number;
}

/** A pages file of an image, by its ordinals. */
export interface SiblingPart extends FilePart {
  readonly process: number;
  readonly gpu: number;
}

/** A pages file, and all of its image, which it may refer to. */
export interface ChainPart extends FilePart {
  readonly siblings: readonly SiblingPart[];
}

export interface FlattenJob {
  readonly done: Promise<PagesSummary>;
  /** `done` rejects with KFD_CANCELLED soon after. */
  cancel(): void;
}

export interface TransferResult extends PagesSummary {
  readonly bytes: number;
  /** Microseconds in all. */
  readonly wallUs: number;
  readonly workers: number;
  /** Times of all workers together; waits are those of the thread that drives the copy engine. */
  readonly stages: {
    readonly file: { readonly bytes: number; readonly busyUs: number };
    readonly code: { readonly bytes: number; readonly busyUs: number };
    /** Of `code`: checksums. */
    readonly hash: { readonly bytes: number; readonly busyUs: number };
    readonly copy: { readonly bytes: number; readonly waitUs: number };
    readonly work: { readonly bytes: number; readonly waitUs: number };
  };
  /** Stored bytes that went past the page cache. */
  readonly directBytes: number;
  /** Microseconds in which workers of a drain waited for their turn. */
  readonly turnWaitUs: number;
  readonly slowest: 'copy' | 'file' | 'code';
  readonly engine: 'sdma' | 'cpu';
}

/** Starts when made. The dma-bufs are duplicated: close yours whenever you like. */
export interface TransferJob<Result = TransferResult> {
  readonly done: Promise<Result>;
  /** Bytes moved so far. */
  progress(): number;
  /** `done` rejects with KFD_CANCELLED soon after. */
  cancel(): void;
}

/** Pieces of the host's staging memory; a process that ends, however it does, has none. */
export interface StagingClaim {
  /** Pieces held; 0 while there are none for it. Throws KFD_IO. */
  poll(): number;
  /** Gives them back. */
  close(): void;
}

export interface StagingRequest {
  /** The file that is locked; made if it is missing. */
  readonly file: string;
  /** Pieces on the host, and those that are of use. */
  readonly total: number;
  readonly wanted: number;
  /** That the session runs at once. */
  readonly transfers: number;
  /** Its pid. */
  readonly session: number;
}

export interface StateSummary {
  readonly ordinal: number;
  readonly nsPid: number;
  readonly numObjects: number;
  readonly privBytes: number;
  readonly vmas: number;
  readonly devices: readonly { readonly userGpuId: number; readonly actualGpuId: number }[];
  readonly bos: readonly {
    /** The id the process knows (device.userGpuId). */
    readonly gpuId: number;
    readonly size: number;
    /** `handle`: another handle of a BO that comes before it. */
    readonly kind: 'vram' | 'gtt' | 'userptr' | 'doorbell' | 'mmio' | 'handle';
    /** KFD_IOC_ALLOC_MEM_FLAGS_*, unsigned; missing for a BO of a render file. */
    readonly allocFlags?: number;
  }[];
}

export interface RenderStateSummary {
  readonly ordinal: number;
  readonly contexts: number;
  readonly boLists: number;
  readonly mappings: number;
  readonly bos: readonly {
    /** Its GEM handle in that file. */
    readonly handle: number;
    readonly size: number;
    readonly kind: 'vram' | 'gtt' | 'handle';
  }[];
}

export interface PagesCheckResult extends PagesSummary {
  readonly process: number;
  readonly gpu: number;
  readonly buffers: number;
}

/** Verifies a pages file that comes as a stream: feed() throws as soon as the bytes show damage. */
export interface PagesCheck {
  feed(chunk: Buffer): void;
  finish(): PagesCheckResult;
}

/** Whether the frames that pages files of an image refer to in each other are there. */
export interface SiblingCheck {
  /** Reads a file's index. Throws KFD_IO, KFD_CORRUPT. */
  addFile(path: string): void;
  /** After the last file: the first of each file that refers to something that is not there; empty when all is well. */
  problems(): readonly {
    readonly process: number;
    readonly gpu: number;
    readonly reason: string;
  }[];
}

export interface ZstdDecoder {
  push(chunk: Buffer, sink: (piece: Buffer) => void): void;
  /** Throws KFD_CORRUPT when the stream stops inside a frame. */
  end(): void;
}

export interface Native {
  readonly Listener: new (path: string, onMessage: (delivery: Delivery) => void) => Listener;
  readonly StagingClaim: new (request: StagingRequest) => StagingClaim;
  readonly TransferJob: {
    new (options: DrainOptions | UploadOptions): TransferJob;
    new (options: SnapshotOptions): TransferJob<Snapshot>;
  };
  /** `index`: path of a new file that gets all but the frames. `siblings` is told of the file when it is sound. */
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
  /** What KFD keeps of BOs in a state file can be read, as exchanging one for a shared buffer needs. Throws KFD_UNSUPPORTED, KFD_CORRUPT. */
  checkPrivateData(bytes: Buffer): void;
  renderStateSummary(bytes: Buffer): RenderStateSummary;
  /** A render state as a memfd for the plugin, with the BOs at the positions `shared` named as buffers of others: `firstBo` and position. */
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
   * Writes the new pages file `target` with the contents of `chain`: a pages file, its parent, that one's parent, to the
   * one that has none. What `frames` has, of the image that `target` is for, is referred to there. Rejects with KFD_CORRUPT
   * when they do not fit, KFD_IO.
   */
  flattenPages(chain: readonly ChainPart[], target: string, frames?: ImageFrames): FlattenJob;
}

const root = join(dirname(fileURLToPath(import.meta.url)), '../..');
let loaded: Native | undefined;

/** Loads the addon on first use. Throws E_NATIVE with every place that was tried. */
export function native(): Native {
  if (loaded !== undefined) return loaded;
  const require = createRequire(import.meta.url);
  const problems: string[] = [];
  for (const place of ['lib', 'build/native']) {
    const path = join(root, place, 'kfd_checkpoint.node');
    try {
      loaded = require(path) as Native;
      return loaded;
    } catch (error) {
      problems.push((error as Error).message.split('\n')[0] ?? path);
    }
  }
  throw new KfdError('E_NATIVE', `native addon: ${problems.join('; ')}`, {
    hint: 'run "npm run build:native", or install the package for this machine again',
  });
}

const codes: Readonly<Record<string, ErrorCode>> = {
  KFD_IO: 'E_IO',
  KFD_CORRUPT: 'E_IMAGE_CORRUPT',
  KFD_UNSUPPORTED: 'E_UNSUPPORTED_STATE',
  KFD_PROTOCOL: 'E_PROTOCOL',
  KFD_GPU: 'E_GPU_IO',
  KFD_CANCELLED: 'E_CANCELLED',
};

/** An error of the addon in this project's vocabulary; `subject` starts the message. */
export function fromNative(error: unknown, subject: string): KfdError {
  if (error instanceof KfdError) return error;
  const name = error instanceof Error && 'code' in error ? String(error.code) : '';
  const message = error instanceof Error ? error.message : String(error);
  return new KfdError(codes[name] ?? 'E_INTERNAL', `${subject}: ${message}`, { cause: error });
}
