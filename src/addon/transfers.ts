/** Transfers in the addon: contents between buffers and pages files, and their staging memory. */

import type { PagesSummary } from './images.js';
import type { Descriptor } from './messages.js';

export interface TransferBuffer {
  readonly id: number;
  /** Bytes. */
  readonly size: number;
  readonly dmabuf: Descriptor;
  /** Start of its content in the dma-buf, bytes, a multiple of 4096. Missing: the dma-buf has exactly `size` bytes. */
  readonly offset?: number;
}

interface TransferOptions {
  readonly renderNode: string;
  /** `done` rejects with KFD_ENGINE when SDMA cannot be set up. */
  readonly engine: 'sdma' | 'cpu';
  /** The staging ring: `slots` pinned pieces of `slotBytes`. */
  readonly slots: number;
  readonly slotBytes: number;
  /** Threads that read or write frames, and code them. Each may keep two pieces of `slotBytes`. */
  readonly workers: number;
  readonly buffers: readonly TransferBuffer[];
}

export interface DrainOptions extends TransferOptions {
  readonly operation: 'drain';
  /** The pages file. */
  readonly path: string;
  /** Takes the same bytes, while they are written. */
  readonly stream?: ContentsSender;
  readonly process: number;
  readonly gpu: number;
  readonly compress: 'none' | 'auto' | 'lz4' | 'zstd';
  readonly zstdLevel: number;
  /** Path of the parent's pages file or of its index. Its frames are not stored again. */
  readonly parent?: string;
  /** The frames of the image. A frame of another file is not stored again. */
  readonly frames?: ImageFrames;
}

/**
 * A FIFO with pages files on their way to another host (docs/image-format.md). It is open until finish() or stop(), and
 * as long as a job has it. Throws KFD_IO without a reader, KFD_PROTOCOL for what is no FIFO.
 */
export interface ContentsSender {
  /** The totals, when all files are written. Rejects with KFD_IO when the reader has gone, KFD_CANCELLED. */
  finish(): Promise<void>;
  /** Ends all waits for the reader. Nothing may follow. */
  stop(): void;
  /** Bytes of pages files so far. */
  bytes(): number;
}

export interface ReceivedContents {
  readonly files: number;
  /** Of all files. */
  readonly bytes: number;
}

/** Pages files that arrive. */
export interface ReceiveJob {
  /**
   * Rejects with KFD_CORRUPT for what is no whole stream, KFD_UNSUPPORTED beyond the limits, KFD_IO, KFD_CANCELLED.
   * What has arrived stays.
   */
  readonly done: Promise<ReceivedContents>;
  /** Bytes so far. */
  progress(): number;
  cancel(): void;
}

/** A file on its way to another host, while it is still written: one zstd stream. */
export interface SendFileJob {
  /** The end for whoever takes it on. Close it once that process has it. */
  readonly pipe: Descriptor;
  /** Nobody writes the file any more: its end is sent when all of it is. */
  end(): void;
  /** Bytes of the file so far. */
  bytes(): number;
  /** Bytes of the file. Rejects with KFD_IO when the reader has gone, KFD_CANCELLED. */
  readonly done: Promise<number>;
  cancel(): void;
}

/** A file that arrives, on its way to a program that takes it meanwhile. */
export interface ForwardFileJob {
  /** The end for that program. Close it once it has it: what is left shows that nobody reads any more. */
  readonly pipe: Descriptor;
  /**
   * Bytes of the file. Rejects with KFD_CORRUPT for what is no whole stream, KFD_UNSUPPORTED beyond the limit, KFD_IO
   * when the reader has gone, KFD_CANCELLED. The reader sees an end then, too.
   */
  readonly done: Promise<number>;
  cancel(): void;
}

/** The frames stored by the pages files of one image. All jobs that write them share it. */
export type ImageFrames = object;

export interface UploadOptions extends TransferOptions {
  readonly operation: 'upload';
  /** The pages file. Files in its folder are read when it refers to them. */
  readonly path: string;
  /** Its parent, the parent's parent and so on, which are read in the same way. */
  readonly parents?: readonly string[];
}

export interface SnapshotOptions extends TransferOptions {
  readonly operation: 'snapshot';
  /** The most host memory it may use. VRAM comes first. */
  readonly hostBytes: number;
}

/** Copies of buffers. They end when `memory` is closed. */
export interface Snapshot {
  /** none: there was no room. */
  readonly place: 'vram' | 'host' | 'none';
  /** dma-bufs, or a memfd. */
  readonly memory: readonly Descriptor[];
  /** In the order of the buffers: index in `memory`, and offset in it. */
  readonly places: readonly { readonly memory: number; readonly offset: number }[];
  readonly wallUs: number;
}

export interface TransferResult extends PagesSummary {
  readonly bytes: number;
  /** Microseconds in all. */
  readonly wallUs: number;
  readonly workers: number;
  /** Sums over all workers. Waits are the waits of the thread that drives the copy engine. */
  readonly stages: {
    readonly file: { readonly bytes: number; readonly busyUs: number };
    readonly code: { readonly bytes: number; readonly busyUs: number };
    /** The part of `code` for checksums. */
    readonly hash: { readonly bytes: number; readonly busyUs: number };
    readonly copy: { readonly bytes: number; readonly waitUs: number };
    readonly work: { readonly bytes: number; readonly waitUs: number };
  };
  /** Stored bytes that bypassed the page cache. */
  readonly directBytes: number;
  /** Microseconds in which workers of a drain waited for their turn. */
  readonly turnWaitUs: number;
  readonly slowest: 'copy' | 'file' | 'code';
  readonly engine: 'sdma' | 'cpu';
}

/** The job starts at once. The dma-bufs are duplicated: the caller may close its own at any time. */
export interface TransferJob<Result = TransferResult> {
  readonly done: Promise<Result>;
  /** Bytes moved so far. */
  progress(): number;
  /** `done` rejects with KFD_CANCELLED soon after. */
  cancel(): void;
}

/** Pieces of the host's staging memory. They are free when their process ends, in any way. */
export interface StagingClaim {
  /** Pieces held; 0 while none is free. Throws KFD_IO. */
  poll(): number;
  /** Returns the pieces. */
  close(): void;
}

export interface StagingRequest {
  /** The lock file. It is created if missing. */
  readonly file: string;
  /** Pieces on the host, and the most that the transfer can use. */
  readonly total: number;
  readonly wanted: number;
  /** Transfers that the session runs at the same time. */
  readonly transfers: number;
  /** Its pid. */
  readonly session: number;
}
