/** A podman archive: tar, plain or in one gzip or zstd stream. A compressed one is read as a stream. */

import { createReadStream } from 'node:fs';
import { open } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import { type ExtractEvents, extract, type Header } from 'tar-stream';
import { asKfdError, KfdError } from '../errors.js';
import { Entries } from './entries.js';
import { walkPlainTar } from './plain-tar.js';
import { damaged, Tail } from './tail.js';
import type { Compression, Visit, WalkOptions, WalkResult } from './walk.js';

type EntryStream = ExtractEvents['entry'][1];

/** `walkCheckpoint` for an archive. */
export async function walkArchive(
  path: string,
  options: WalkOptions,
  visit: Visit,
): Promise<WalkResult> {
  const compression = await compressionOf(path);
  try {
    if (compression === 'none') return await walkPlainTar(path, options, visit);
    return await walkStream(path, compression, options, visit);
  } catch (error) {
    throw asArchiveError(error, path);
  }
}

async function walkStream(
  path: string,
  compression: 'gzip' | 'zstd',
  options: WalkOptions,
  visit: Visit,
): Promise<WalkResult> {
  const entries = new Entries(path);
  const tar = extract();
  const tail = new Tail();
  let lastEntry: Promise<void> = Promise.resolve();
  tar.on('entry', (header, content, next) => {
    lastEntry = takeEntry(header, content).then(
      () => next(),
      (error: unknown) => next(asArchiveError(error, path)),
    );
  });

  async function takeEntry(header: Header, source: EntryStream): Promise<void> {
    // tar-stream's streams are streamx: the shape of Node's, but not its types.
    const content = source as unknown as AsyncIterable<Buffer>;
    tail.entryAt(source.offset, header);
    const name = entries.take(header.name, kindOf(header), header.size);
    if (name !== undefined) await visit({ name, size: header.size }, content);
    if (!source.destroyed) await drain(content);
  }

  await pipeline(
    [
      createReadStream(path, { highWaterMark: 1 << 20 }),
      compression === 'gzip' ? createGunzip({ chunkSize: 1 << 18 }) : options.zstdDecoder(),
      tail,
      tar as unknown as NodeJS.WritableStream,
    ],
    options.signal === undefined ? {} : { signal: options.signal },
  );
  await lastEntry;
  tail.assertWhole(path);
  return { kind: 'archive', compression, ignored: entries.ignored };
}

function kindOf({ type }: Header): 'file' | 'directory' | 'other' {
  if (type === 'file' || type === 'contiguous-file') return 'file';
  return type === 'directory' ? 'directory' : 'other';
}

async function drain(content: AsyncIterable<Buffer>): Promise<void> {
  for await (const _ of content) {
    // Skipped contents must still be read.
  }
}

/** The compression, by the first bytes. Throws E_IMAGE_CORRUPT for an unknown one. */
export async function compressionOf(path: string): Promise<Compression> {
  const handle = await open(path, 'r');
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(512), 0, 512, 0);
    if (bytesRead >= 2 && buffer.readUInt16BE(0) === 0x1f8b) return 'gzip';
    if (bytesRead >= 4 && buffer.readUInt32LE(0) === 0xfd2fb528) return 'zstd';
    if (bytesRead === 512 && buffer.toString('latin1', 257, 262) === 'ustar') return 'none';
  } finally {
    await handle.close();
  }
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
  // Other errors come from a decoder or the tar reader: the bytes are wrong.
  const reason = error instanceof Error ? error.message : String(error);
  return new KfdError('E_IMAGE_CORRUPT', `${path}: ${reason}`, { cause: error, hint: damaged });
}
