/** An uncompressed archive: headers are read, contents only on request. */

import { createReadStream } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { KfdError } from '../errors.js';
import { Entries } from './entries.js';
import { blockBytes, decodePax, decodeTarHeader, padded, type TarHeader } from './tar-header.js';
import type { Visit, WalkOptions, WalkResult } from './walk.js';

/** Bytes of the largest pax header or GNU long name. */
const maxExtensionBytes = 1 << 20;
/** The most headers of directories, links and devices in a row: a bound for hostile archives. */
const maxHeaders = 1 << 20;

/** `walkCheckpoint` for an uncompressed archive. The time depends on the number of entries. */
export async function walkPlainTar(
  path: string,
  { signal }: WalkOptions,
  visit: Visit,
): Promise<WalkResult> {
  const handle = await open(path, 'r');
  try {
    const entries = new Entries(path);
    const { size: end } = await handle.stat();
    for await (const { header, at } of headers(handle, path, end)) {
      if (signal?.aborted) throw new KfdError('E_CANCELLED', `${path}: reading was interrupted`);
      const name = entries.take(header.name, kindOf(header.type), header.size);
      if (name === undefined) continue;
      const place = { path, offset: at, size: header.size };
      await visit({ name, size: header.size, place }, contentOf(path, at, header.size, signal));
    }
    return { kind: 'archive', compression: 'none', ignored: entries.ignored };
  } finally {
    await handle.close();
  }
}

function kindOf(type: string): 'file' | 'directory' | 'other' {
  if (type === '0' || type === '7') return 'file';
  return type === '5' ? 'directory' : 'other';
}

/** All entries with their effective names and sizes; `at`: offset of the contents. */
async function* headers(
  handle: FileHandle,
  path: string,
  end: number,
): AsyncGenerator<{ header: TarHeader; at: number }> {
  const corrupt = (reason: string) =>
    new KfdError('E_IMAGE_CORRUPT', `${path}: ${reason}`, {
      hint: 'the archive is damaged or incomplete; use another copy',
    });
  const read = async (at: number, bytes: number): Promise<Buffer> => {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(bytes), 0, bytes, at);
    if (bytesRead !== bytes) throw corrupt('the end is missing');
    return buffer;
  };
  let at = 0;
  /** Values of pax and GNU headers, for the entry that follows. */
  let extended: { name?: string; size?: number } = {};
  for (let count = 0; ; count++) {
    if (count > maxHeaders) throw corrupt('more entries than any checkpoint has');
    const header = decodeTarHeader(await read(at, blockBytes));
    if (header === undefined) {
      if ((await read(at + blockBytes, blockBytes)).some((byte) => byte !== 0)) {
        throw corrupt('half an end marker');
      }
      return;
    }
    at += blockBytes;
    if (header.type === 'S') throw corrupt('a sparse file');
    const size = extended.size ?? header.size;
    if (size > end - at) throw corrupt('the end is missing');
    if ('xgLK'.includes(header.type)) {
      if (header.size > maxExtensionBytes) throw corrupt('a header is too large');
      const bytes = await read(at, header.size);
      if (header.type === 'L') extended.name = bytes.toString('utf8').replace(/\0.*$/s, '');
      if (header.type === 'x') extended = { ...extended, ...paxFields(decodePax(bytes)) };
      // No tool writes a name or a size for all entries: such an archive is hostile.
      if (header.type === 'g' && Object.keys(paxFields(decodePax(bytes))).length > 0) {
        throw corrupt('a global header with a name or size');
      }
      at += padded(header.size);
      continue;
    }
    // Links and devices have no contents. Their size is ignored.
    const content = '01234567'.indexOf(header.type) > 0 && header.type !== '7' ? 0 : size;
    yield { header: { ...header, name: extended.name ?? header.name, size: content }, at };
    at += padded(content);
    extended = {};
  }

  function paxFields(records: ReadonlyMap<string, string>): { name?: string; size?: number } {
    if ([...records.keys()].some((key) => key.startsWith('GNU.sparse.'))) {
      throw corrupt('a sparse file');
    }
    const name = records.get('path');
    const size = records.get('size');
    if (size !== undefined && !/^\d{1,15}$/.test(size)) throw corrupt('a size that is no number');
    return {
      ...(name !== undefined && { name }),
      ...(size !== undefined && { size: Number(size) }),
    };
  }
}

/** Opened on the first read. */
async function* contentOf(
  path: string,
  start: number,
  size: number,
  signal: AbortSignal | undefined,
): AsyncGenerator<Buffer> {
  if (size === 0) return;
  const range = { start, end: start + size - 1, highWaterMark: Math.min(size, 1 << 20) };
  const options = signal === undefined ? range : { ...range, signal };
  let left = size;
  for await (const chunk of createReadStream(path, options) as AsyncIterable<Buffer>) {
    left -= chunk.length;
    yield chunk;
  }
  if (left > 0) throw new KfdError('E_IMAGE_CORRUPT', `${path}: became shorter while it was read`);
}
