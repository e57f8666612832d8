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

/** A pages file by its header and its table of buffers, which are in the order of the file. */
export interface PagesListing extends PagesSummary {
  /** Ordinals, as in the manifest. */
  readonly process: number;
  readonly gpu: number;
  /** For each buffer: the id in the manifest, and the bytes of its content. */
  readonly bufferIds: Uint32Array;
  readonly bufferSizes: Float64Array;
}

/** A file or a part of a file, in bytes. */
export interface FilePart {
  readonly path: string;
  readonly offset: number;
  readonly size: number;
}

/** A pages file as the manifest of its image names it. */
export interface PagesPart extends FilePart {
  /** Ordinals. */
  readonly process: number;
  readonly gpu: number;
  /** The root in the manifest, hex. */
  readonly root: string;
}

/** A pages file, and all pages files of its image, to which it may refer. */
export interface ChainPart extends PagesPart {
  readonly siblings: readonly PagesPart[];
}

/** A pages file that holds contents alone, and where it begins in its file. */
export interface StoreTarget {
  readonly path: string;
  /** The GPU ordinal in its name. */
  readonly ordinal: number;
}

/** What an image has of a store. Bytes as they are stored. */
export interface StoreUse {
  /** Contents of the image. */
  readonly live: number;
  /** All contents. */
  readonly stored: number;
}

/** How the contents of an image get into stores. */
export interface StoresOrder {
  /** New stores. Those that nothing is left for are not made. */
  readonly targets: readonly StoreTarget[];
  /** Where a store begins in its file. */
  readonly begin: number;
  /** Stored bytes in each of them but the last. */
  readonly bytes: number;
  /** New files of the image, in the order of the old ones. */
  readonly rewritten: readonly string[];
}

export interface StoresWritten {
  /** In the order of the targets. */
  readonly stores: readonly PagesListing[];
  readonly files: readonly PagesListing[];
}

/** `cancel()` makes `done` reject with KFD_CANCELLED soon after. */
export interface AddonJob<Result> {
  readonly done: Promise<Result>;
  cancel(): void;
}

export interface FlattenJob {
  /** The new file, with the buffers of the first file of the chain. */
  readonly done: Promise<PagesListing>;
  /** `done` rejects with KFD_CANCELLED soon after. */
  cancel(): void;
}

/** What a GPU calls a buffer, in bytes. */
export interface BufferName {
  readonly size: number;
  /** In the GPU's render node; missing when the CPU must not map it. */
  readonly mmapOffset?: bigint;
}

/** Kinds of BOs, by the numbers in BoColumns. `handle`: a second handle of an earlier BO. */
export const boKinds = ['vram', 'gtt', 'userptr', 'doorbell', 'mmio', 'handle'] as const;
export type BoKind = (typeof boKinds)[number];

/** BOs in columns: a hostile file has a million of them. */
export interface BoColumns {
  /** Bytes. */
  readonly sizes: Float64Array;
  /** Indices of `boKinds`. */
  readonly kinds: Uint8Array;
}

/** A state file without its BOs. */
export interface ProcessFacts {
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
}

/** A state file that somebody else may have made. */
export interface StateFacts extends ProcessFacts {
  readonly bos: BoColumns;
}

/** What verifying and reports need of a render state file. */
export interface RenderStateFacts {
  readonly ordinal: number;
  readonly contexts: number;
  readonly boLists: number;
  readonly mappings: number;
  readonly bos: BoColumns;
  /** The GEM handles of the BOs, ascending. */
  readonly handles: Uint32Array;
}

/** A state file of this host's kernel. */
export interface StateSummary extends ProcessFacts {
  readonly bos: readonly {
    /** The id the process knows (device.userGpuId). */
    readonly gpuId: number;
    readonly size: number;
    /** As BufferName's, of VRAM and GTT. */
    readonly mmapOffset?: bigint;
    readonly kind: BoKind;
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

/**
 * Verifies a pages file from a stream. feed() throws as soon as the bytes show damage. After an error and after
 * finish() it holds no memory, and throws.
 */
export interface PagesCheck {
  feed(chunk: Buffer): void;
  finish(): PagesListing;
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
