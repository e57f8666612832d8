/** A checkpoint to look into: an archive, a podman bundle, or an image directory. */

import { stat } from 'node:fs/promises';
import { isMissing, KfdError } from '../errors.js';
import { type DirectoryKind, walkDirectory } from './directory.js';
import { type Compression, walkArchive } from './tar.js';
import type { ZstdDecoderFactory } from './verifier.js';

/** A file, or a part of one. Bytes. */
export interface FilePart {
  readonly path: string;
  readonly offset: number;
  readonly size: number;
}

/** One file of a checkpoint. `name` is relative to the archive's top, e.g. "checkpoint/core-1.img". */
export interface CheckpointEntry {
  readonly name: string;
  /** Bytes. */
  readonly size: number;
  /** Where it can be read at any place; missing in a compressed archive. */
  readonly place?: FilePart;
}

/**
 * Called once per regular file, in order. Reads `content` to its end, or not at all: a loop left
 * half way ends the whole walk.
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
  /** Names that were not believed: absolute, with "..", or no regular file; at most 20. */
  readonly ignored: readonly string[];
}

/**
 * Walks all files of a checkpoint once, without unpacking. Throws E_NOT_FOUND, E_IMAGE_CORRUPT for
 * anything damaged, hostile or not a checkpoint at all, E_IO when reading fails, and whatever
 * `visit` throws.
 */
export async function walkCheckpoint(
  path: string,
  options: WalkOptions,
  visit: Visit,
): Promise<WalkResult> {
  let isDirectory: boolean;
  try {
    const found = await stat(path);
    isDirectory = found.isDirectory();
    if (!isDirectory && !found.isFile()) {
      throw new KfdError('E_IMAGE_CORRUPT', `${path}: neither a file nor a directory`);
    }
  } catch (error) {
    if (!isMissing(error)) throw error;
    throw new KfdError('E_NOT_FOUND', `${path}: no such file or directory`, { cause: error });
  }
  return isDirectory ? walkDirectory(path, visit) : walkArchive(path, options, visit);
}
