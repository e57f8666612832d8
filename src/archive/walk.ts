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
 * Called once per regular file, in order. It must read `content` to its end, or not at all. Where the entry has a
 * `place` it may leave early; elsewhere this ends the whole walk.
 */
export type Visit = (entry: CheckpointEntry, content: AsyncIterable<Buffer>) => Promise<void>;

export interface WalkOptions {
  readonly zstdDecoder: ZstdDecoderFactory;
  readonly signal?: AbortSignal;
}

export interface WalkResult {
  readonly kind: 'archive' | DirectoryKind;
  /** undefined for a directory. */
  readonly compression: Compression | undefined;
  /** Names that are not trusted: absolute, with "..", or no regular file; at most 20. */
  readonly ignored: readonly string[];
}
