/** Image files, as the addon reads, checks and joins them. */

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
