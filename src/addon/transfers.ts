/** Transfers of the addon: contents between buffers and pages files, and the host memory they work with. */

import type { PagesSummary } from './images.js';
import type { Descriptor } from './messages.js';

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
