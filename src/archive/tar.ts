/** A podman archive: tar, plain or in one gzip or zstd stream. A compressed one is read as a stream. */

import { createReadStream } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import { asKfdError, KfdError } from '../errors.js';
import { regularFile } from '../os/files.js';
import { Entries } from './entries.js';
import { imagePrefix } from './names.js';
import { damaged, FileBytes, StreamBytes } from './tar-bytes.js';
import { type TarEntry, tarEntries } from './tar-entries.js';
import type { Compression, Visit, WalkOptions, WalkResult } from './walk.js';

export interface TarOptions extends WalkOptions {
  /** Called with the bytes of the archive that are read so far. */
  readonly onProgress?: (bytesRead: number) => void;
}

/** `walkCheckpoint` for an archive. */
export async function walkArchive(
  path: string,
  options: WalkOptions,
  visit: Visit,
): Promise<WalkResult> {
  return withTar(path, options, async (tar, compression) => {
    const { containerd } = options;
    const entries = new Entries(path, containerd === undefined ? '' : imagePrefix);
    // They come first: the largest of them is bounded before the archive is read.
    for (const [name, bytes] of Object.entries(containerd ?? {})) {
      await visit({ name, size: bytes.length }, Readable.from([bytes]));
    }
    for await (const { name, kind, size, place, content } of tar) {
      const plain = entries.take(name, kind);
      if (plain === undefined) continue;
      await visit({ name: plain, size, ...(place && { place }) }, content);
    }
    const { misplaced, hasParentLink } = entries;
    const needs = hasParentLink && { needsPrevious: true as const };
    const kind = containerd === undefined ? 'archive' : 'containerd';
    return { kind, compression, misplaced, ...needs };
  });
}

/**
 * Runs `work` with the entries of an archive. For an uncompressed one the time depends on the number of entries. Throws
 * E_IMAGE_CORRUPT, E_IO, E_CANCELLED and the errors of `work`.
 */
export async function withTar<T>(
  path: string,
  options: TarOptions,
  work: (entries: AsyncIterable<TarEntry>, compression: Compression) => Promise<T>,
): Promise<T> {
  try {
    const file = await regularFile(path, 'E_IMAGE_CORRUPT');
    try {
      const compression = await compressionIn(file, path);
      if (compression === 'none') {
        const { size } = await file.stat();
        return await work(tarEntries(new FileBytes(path, file, size, options)), compression);
      }
      return await withStream(file, path, compression, options, work);
    } finally {
      await file.close();
    }
  } catch (error) {
    throw asArchiveError(error, path);
  }
}

async function withStream<T>(
  file: FileHandle,
  path: string,
  compression: 'gzip' | 'zstd',
  options: TarOptions,
  work: (entries: AsyncIterable<TarEntry>, compression: Compression) => Promise<T>,
): Promise<T> {
  const { signal } = options;
  let result: { value: T } | undefined;
  // The first failure is the reason. Streams that it ends early may fail, too.
  let failure: { error: unknown } | undefined;
  try {
    await pipeline(
      createReadStream(path, { fd: file, start: 0, autoClose: false, highWaterMark: 1 << 20 }),
      (chunks: AsyncIterable<Buffer>) => counted(chunks, options.onProgress),
      compression === 'gzip' ? createGunzip({ chunkSize: 1 << 18 }) : options.zstdDecoder(),
      async (chunks: AsyncIterable<Buffer>) => {
        try {
          const bytes = new StreamBytes(path, chunks, signal);
          result = { value: await work(tarEntries(bytes), compression) };
        } catch (error) {
          failure = { error };
          throw error;
        }
      },
      signal === undefined ? {} : { signal },
    );
  } catch (error) {
    if (failure !== undefined) throw failure.error;
    // gunzip ends before its input when zeros follow, as on tapes. The pipeline takes that for an interruption.
    const isEarlyEnd = result !== undefined && (error as Error).name === 'AbortError';
    if (!isEarlyEnd || signal?.aborted) throw error;
  }
  if (result === undefined) throw new KfdError('E_INTERNAL', `${path}: was not read`);
  return result.value;
}

async function* counted(
  chunks: AsyncIterable<Buffer>,
  report: TarOptions['onProgress'],
): AsyncGenerator<Buffer> {
  let bytes = 0;
  for await (const chunk of chunks) {
    bytes += chunk.length;
    report?.(bytes);
    yield chunk;
  }
}

/** The compression, by the first bytes. Throws E_IMAGE_CORRUPT for an unknown one, and Node's error. */
export async function compressionOf(path: string): Promise<Compression> {
  const file = await regularFile(path, 'E_IMAGE_CORRUPT');
  try {
    return await compressionIn(file, path);
  } finally {
    await file.close();
  }
}

async function compressionIn(file: FileHandle, path: string): Promise<Compression> {
  // What a shorter file lacks is zero here.
  const { buffer } = await file.read(Buffer.alloc(512), 0, 512, 0);
  if (buffer.readUInt16BE(0) === 0x1f8b) return 'gzip';
  if (buffer.readUInt32LE(0) === 0xfd2fb528) return 'zstd';
  if (buffer.toString('latin1', 257, 262) === 'ustar') return 'none';
  throw new KfdError('E_IMAGE_CORRUPT', `${path}: not a tar archive, plain, gzip or zstd`, {
    hint: 'name a file written by "podman container checkpoint --export"',
  });
}

/** Any error of reading an archive, as a KfdError. */
export function asArchiveError(error: unknown, path: string): KfdError {
  if (error instanceof KfdError) return error;
  if (error instanceof Error && error.name === 'AbortError') {
    return new KfdError('E_CANCELLED', `${path}: reading was interrupted`, { cause: error });
  }
  const known = asKfdError(error, path);
  if (known.code === 'E_IO') return known;
  if (error instanceof TypeError || error instanceof RangeError) return known;
  // Other errors come from a decoder: the bytes are wrong.
  const reason = error instanceof Error ? error.message : String(error);
  return new KfdError('E_IMAGE_CORRUPT', `${path}: ${reason}`, { cause: error, hint: damaged });
}
