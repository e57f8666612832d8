/** Writing an archive as a stream, with new contents for some entries. */

import { createReadStream, write } from 'node:fs';
import { type Duplex, Readable, Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import type { FilePart } from '../addon.js';
import { KfdError } from '../errors.js';
import { Entries } from './entries.js';
import { withTar } from './tar.js';
import type { TarEntry } from './tar-entries.js';
import { blockBytes, padded } from './tar-header.js';
import type { Compression, WalkOptions } from './walk.js';

export interface RewriteOptions extends WalkOptions {
  /** Makes the stream that compresses with zstd. */
  readonly zstdEncoder: () => Duplex;
  readonly onProgress?: (bytesRead: number) => void;
  /** The new archive is not compressed, whatever the old one is. */
  readonly plain?: boolean;
  /** Leaves out files by their plain names. */
  readonly leaveOut?: (name: string) => boolean;
}

/** The new contents of an entry: bytes, or a file. */
export type Contents = Buffer | FilePart;

/** The end marker. */
const end = Buffer.alloc(2 * blockBytes);

/**
 * Copies the archive at `path`, and the files of further layers behind it, into the descriptor `target`, with the same
 * compression. Headers and contents stay byte for byte, but for the contents and sizes of `replacements`. The archive
 * must have every name of `replacements`. No write is under way afterwards. Throws E_IMAGE_CORRUPT, E_IO, E_CANCELLED.
 */
export async function rewriteArchive(
  path: string,
  target: number,
  replacements: ReadonlyMap<string, Contents>,
  options: RewriteOptions,
): Promise<void> {
  const { signal } = options;
  const writer = new DescriptorWriter(target);
  try {
    await withTar(path, options, (tar, compression) =>
      withLayers(options.layers ?? [], options, (layers) =>
        pipeline(
          [
            Readable.from(copied(path, tar, layers, replacements, options), { objectMode: false }),
            ...encoder(compression, options),
            writer,
          ],
          signal === undefined ? {} : { signal },
        ),
      ),
    );
  } finally {
    await writer.idle();
  }
}

/** Calls `work` with the entries of all layers. */
async function withLayers<T>(
  [layer, ...others]: readonly string[],
  options: RewriteOptions,
  work: (layers: readonly AsyncIterable<TarEntry>[]) => Promise<T>,
): Promise<T> {
  if (layer === undefined) return work([]);
  const { onProgress: _, ...quiet } = options;
  return withTar(layer, quiet, (tar) =>
    withLayers(others, options, (after) => work([tar, ...after])),
  );
}

/** The bytes of the new archive. */
async function* copied(
  path: string,
  tar: AsyncIterable<TarEntry>,
  layers: readonly AsyncIterable<TarEntry>[],
  replacements: ReadonlyMap<string, Contents>,
  options: RewriteOptions,
): AsyncGenerator<Buffer> {
  const entries = new Entries(path);
  const left = new Set(replacements.keys());
  for await (const entry of tar) {
    const name = entries.take(entry.name, entry.kind);
    if (name !== undefined && options.leaveOut?.(name) === true) continue;
    const replacement = name === undefined ? undefined : replacements.get(name);
    if (name === undefined || replacement === undefined) {
      yield entry.headers();
      yield* entry.content;
      yield padding(entry.size);
      continue;
    }
    left.delete(name);
    const isBytes = Buffer.isBuffer(replacement);
    const size = isBytes ? replacement.length : replacement.size;
    yield entry.headers(size);
    yield* isBytes ? [replacement] : contentOf(replacement);
    yield padding(size);
  }
  const [missing] = left;
  if (missing !== undefined) {
    throw new KfdError('E_IMAGE_CORRUPT', `${path}: ${missing} went away while it was read`);
  }
  for (const layer of layers) {
    for await (const entry of layer) {
      if (entry.kind !== 'file') continue;
      entries.take(entry.name, entry.kind);
      yield entry.headers();
      yield* entry.content;
      yield padding(entry.size);
    }
  }
  yield end;
}

function padding(size: number): Buffer {
  return Buffer.alloc(padded(size) - size);
}

async function* contentOf({ path, offset, size }: FilePart): AsyncGenerator<Buffer> {
  let left = size;
  const range = { start: offset, end: offset + size - 1, highWaterMark: 1 << 20 };
  for await (const chunk of createReadStream(path, range) as AsyncIterable<Buffer>) {
    left -= chunk.length;
    yield chunk;
  }
  if (left > 0) throw new KfdError('E_IO', `${path}: became shorter while it was read`);
}

/** Writes to a descriptor without ever closing it. Node's own stream closes it on errors. */
class DescriptorWriter extends Writable {
  readonly #fd: number;
  #writing: Promise<unknown> = Promise.resolve();

  constructor(fd: number) {
    super({ highWaterMark: 1 << 20 });
    this.#fd = fd;
  }

  /** Resolves when no write is under way. After an error a stream ends without waiting for its write. */
  async idle(): Promise<void> {
    await this.#writing;
  }

  override _write(chunk: Buffer, _encoding: string, callback: (error?: Error | null) => void) {
    this.#writing = new Promise<void>((resolve) => {
      const next = (left: Buffer): void =>
        write(this.#fd, left, 0, left.length, null, (error, written) => {
          if (error === null && written < left.length && !this.destroyed) {
            return next(left.subarray(written));
          }
          resolve();
          callback(error);
        });
      next(chunk);
    });
  }
}

/** The container engine reads it three times and removes it: fast compression is best. */
function encoder(compression: Compression, options: RewriteOptions): Duplex[] {
  if (options.plain === true) return [];
  if (compression === 'gzip') return [createGzip({ level: 1 })];
  return compression === 'zstd' ? [options.zstdEncoder()] : [];
}
