/** Image files in the addon: reading, checking and joining them. */

export interface PagesSummary {
  readonly contentBytes: number;
  readonly fileBytes: number;
  readonly frames: number;
  readonly zeroFrames: number;
  /** Frames stored in the parent. */
  readonly references: number;
  /** Frames stored in other files of the image. */
  readonly siblings: number;
  /** Frames have digests: the file can be a parent. */
  readonly digests: boolean;
  /** XXH3-128 over the index, hex. */
  readonly root: string;
  /** The root of the parent, if there is a parent. */
  readonly parent?: string;
}

/** A file or a part of a file, in bytes. */
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

/** A pages file, and the other files of its image, to which it may refer. */
export interface ChainPart extends FilePart {
  readonly siblings: readonly SiblingPart[];
}

export interface FlattenJob {
  readonly done: Promise<PagesSummary>;
  /** `done` rejects with KFD_CANCELLED soon after. */
  cancel(): void;
}

/** What a GPU calls a buffer, in bytes. */
export interface BufferName {
  readonly size: number;
  /** In the GPU's render node; missing when the CPU must not map it. */
  readonly mmapOffset?: bigint;
}

export interface StateSummary {
  readonly ordinal: number;
  readonly nsPid: number;
  readonly numObjects: number;
  readonly privBytes: number;
  readonly vmas: number;
  readonly devices: readonly {
    readonly userGpuId: number;
    readonly actualGpuId: number;
    /** Mappings of its render node. */
    readonly renderVmas: number;
  }[];
  readonly bos: readonly {
    /** The id the process knows (device.userGpuId). */
    readonly gpuId: number;
    readonly size: number;
    /** As BufferName's, of VRAM and GTT. */
    readonly mmapOffset?: bigint;
    /** `handle`: a second handle of an earlier BO. */
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
    /** Missing when the CPU must not map it. */
    readonly mmapOffset?: bigint;
    readonly kind: 'vram' | 'gtt' | 'handle';
  }[];
}

export interface PagesCheckResult extends PagesSummary {
  readonly process: number;
  readonly gpu: number;
  readonly buffers: number;
}

/** Verifies a pages file from a stream. feed() throws as soon as the bytes show damage. */
export interface PagesCheck {
  feed(chunk: Buffer): void;
  finish(): PagesCheckResult;
}

/** Checks the references between the pages files of an image. */
export interface SiblingCheck {
  /** Reads a file's index. Throws KFD_IO, KFD_CORRUPT. */
  addFile(path: string): void;
  /** Call after the last file. Returns the first broken reference of each file. */
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
