/** Results of a walk through a checkpoint, for all kinds of checkpoints. */

import type { FilePart } from '../addon.js';
import type { ZstdDecoderFactory } from './verifier.js';

export type Compression = 'none' | 'gzip' | 'zstd';

/** A podman bundle (with `checkpoint/` in it), or CRIU's image directory itself. */
export type DirectoryKind = 'bundle' | 'image';

/** One file of a checkpoint. `name` is relative to the archive's top, e.g. "checkpoint/core-1.img". */
export interface CheckpointEntry {
  readonly name: string;
  /** Bytes. */
  readonly size: number;
  /** For random access; missing in a compressed archive. */
  readonly place?: FilePart;
}

/**
 * Called once per regular file, in order. It may read `content` to any point, and not after it has returned.
 */
export type Visit = (entry: CheckpointEntry, content: AsyncIterable<Buffer>) => Promise<void>;

/** Files that an archive of podman has beside the image directory, by name. */
export type ContainerdDocuments = Readonly<Record<string, Buffer>>;

export interface WalkOptions {
  readonly zstdDecoder: ZstdDecoderFactory;
  /** Folders of GPU contents beside the checkpoint: its own where they are detached, then those of its ancestors. */
  readonly contents?: readonly string[];
  /** Further layers of a checkpoint image: archives with stores, and nothing else of the checkpoint. */
  readonly layers?: readonly string[];
  /**
   * Of an image of containerd: its archive is CRIU's image directory alone, and these documents are as if they were in
   * an archive around it.
   */
  readonly containerd?: ContainerdDocuments | undefined;
  readonly signal?: AbortSignal;
}

export interface WalkResult {
  readonly kind: 'archive' | DirectoryKind | 'containerd';
  /** undefined for a directory. */
  readonly compression: Compression | undefined;
  /** Names of links, special files and folders where a file of a checkpoint belongs; at most 20. */
  readonly misplaced: readonly string[];
  /** An archive that lacks host memory, which the archive of a pre-checkpoint has. */
  readonly needsPrevious?: true;
}
