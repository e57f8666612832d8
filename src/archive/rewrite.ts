/** Writing an archive as a stream, with new contents for some entries. */

import { createReadStream, write } from 'node:fs';
import { type Duplex, Transform, type TransformCallback, Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip, createGzip } from 'node:zlib';
import { type ExtractEvents, extract, type Header, type Pack, pack } from 'tar-stream';
import type { FilePart } from '../addon.js';
import { KfdError } from '../errors.js';
import { Entries } from './entries.js';
import { plainName } from './names.js';
import { Tail } from './tail.js';
import { asArchiveError, compressionOf } from './tar.js';
import type { Compression, WalkOptions } from './walk.js';

export interface RewriteOptions extends WalkOptions {
  /** Makes the stream that compresses with zstd. */
  readonly zstdEncoder: () => Duplex;
  readonly onProgress?: (bytesRead: number) => void;
}

/** The new contents of an entry: bytes, or a file. */
export type Contents = Buffer | FilePart;

type EntryStream = ExtractEvents['entry'][1];

/**
 * Copies the archive at `path` into the descriptor `target`, with the same compression. The archive must have every
 * name of `replacements`. Throws E_IMAGE_CORRUPT, E_IO, E_CANCELLED.
 */
export async function rewriteArchive(
  path: string,
  target: number,
  replacements: ReadonlyMap<string, Contents>,
  options: RewriteOptions,
): Promise<void> {
  const compression = await compressionOf(path);
  const reading = extract();
  const writing = pack();
  const left = new Set(replacements.keys());
  const entries = new Entries(path);
  const tail = new Tail();
  reading.on('entry', (header, stream, next) => {
    stream.on('error', () => undefined);
    copyEntry(header, stream).then(
      () => next(),
      (error: unknown) => next(error as Error),
    );
  });
  reading.on('finish', () => writing.finalize());
  // The pipeline and the reader of the entry report errors. These handlers are for errors that nobody awaits.
  reading.on('error', () => undefined);
  writing.on('error', () => undefined);

  async function copyEntry(header: Header, stream: EntryStream): Promise<void> {
    // tar-stream's streams are streamx: the shape of Node's, but not its types.
    const content = stream as unknown as AsyncIterable<Buffer>;
    tail.entryAt(stream.offset, header);
    const isFile = header.type === 'file' || header.type === 'contiguous-file';
    if (header.type === null || plainName(header.name) === undefined) {
      throw new KfdError(
        'E_IMAGE_CORRUPT',
        `${path}: ${header.name}: not an entry of a checkpoint`,
      );
    }
    const name = isFile ? entries.take(header.name, 'file', header.size) : undefined;
    const replacement = name === undefined ? undefined : replacements.get(name);
    if (name === undefined || replacement === undefined) {
      return fill(writing, header, content);
    }
    left.delete(name);
    for await (const _ of content) {
      // The old contents pass unread. The new contents replace them.
    }
    if (Buffer.isBuffer(replacement)) {
      return fill(writing, withSize(header, replacement.length), [replacement]);
    }
    return fill(writing, withSize(header, replacement.size), contentOf(replacement));
  }

  const signal = options.signal === undefined ? {} : { signal: options.signal };
  // The first failure is the reason, the second its consequence.
  let failure: unknown;
  const failed = (error: unknown, other: typeof reading | typeof writing): void => {
    failure ??= error;
    other.destroy(error as Error);
  };
  // Both must end before the descriptor may be closed.
  await Promise.all([
    pipeline(
      [
        createReadStream(path, { highWaterMark: 1 << 20 }),
        new Counter(options.onProgress),
        ...decoder(compression, options),
        tail,
        reading as unknown as NodeJS.WritableStream,
      ],
      signal,
    ).catch((error: unknown) => failed(error, writing)),
    pipeline(
      [
        writing as unknown as NodeJS.ReadableStream,
        ...encoder(compression, options),
        new DescriptorWriter(target),
      ],
      signal,
    ).catch((error: unknown) => failed(error, reading)),
  ]);
  if (failure !== undefined) throw asArchiveError(failure, path);
  tail.assertWhole(path);
  const [missing] = left;
  if (missing !== undefined) {
    throw new KfdError('E_IMAGE_CORRUPT', `${path}: ${missing} went away while it was read`);
  }
}

function contentOf({ path, offset, size }: FilePart): AsyncIterable<Buffer> {
  return createReadStream(path, {
    start: offset,
    end: offset + size - 1,
    highWaterMark: 1 << 20,
  }) as AsyncIterable<Buffer>;
}

/** Reports how many bytes have passed. */
class Counter extends Transform {
  #bytes = 0;
  readonly #report: (bytes: number) => void;

  constructor(report: (bytes: number) => void = () => undefined) {
    super();
    this.#report = report;
  }

  override _transform(chunk: Buffer, _encoding: string, callback: TransformCallback): void {
    this.#bytes += chunk.length;
    this.#report(this.#bytes);
    callback(null, chunk);
  }
}

/** Writes to a descriptor without ever closing it. Node's own stream closes it on errors. */
class DescriptorWriter extends Writable {
  readonly #fd: number;

  constructor(fd: number) {
    super({ highWaterMark: 1 << 20 });
    this.#fd = fd;
  }

  override _write(chunk: Buffer, encoding: string, callback: TransformCallback): void {
    write(this.#fd, chunk, 0, chunk.length, null, (error, written) => {
      if (error !== null || written === chunk.length) callback(error);
      else this._write(chunk.subarray(written), encoding, callback);
    });
  }
}

/** Writes one entry whole. */
async function fill(
  writing: Pack,
  header: Header,
  content: AsyncIterable<Buffer> | Iterable<Buffer>,
): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const entry = writing.entry(header, (error) => (error ? reject(error) : resolve()));
    entry.on('error', reject);
    void (async () => {
      for await (const chunk of content) {
        if (!entry.write(chunk))
          await new Promise((drained) => entry.once('drain', drained as () => void));
      }
      entry.end(undefined);
    })().catch(reject);
  });
}

/** A size in a pax header overrides the size of the entry. */
function withSize(header: Header, size: number): Header {
  const { size: _, ...pax } = (header.pax ?? {}) as Record<string, string>;
  return { ...header, size, pax: header.pax ? pax : null };
}

function decoder(compression: Compression, options: RewriteOptions): Transform[] {
  if (compression === 'gzip') return [createGunzip({ chunkSize: 1 << 18 })];
  return compression === 'zstd' ? [options.zstdDecoder()] : [];
}

/** The container engine reads it three times and removes it: fast compression is best. */
function encoder(compression: Compression, options: RewriteOptions): Duplex[] {
  if (compression === 'gzip') return [createGzip({ level: 1 })];
  return compression === 'zstd' ? [options.zstdEncoder()] : [];
}
