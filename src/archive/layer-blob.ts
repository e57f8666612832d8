/**
 * A store as a layer: a tar file with the image directory and the store in it. The bytes follow from the store alone,
 * so that equal contents are equal layers, wherever they were made.
 */

import { type FileHandle, open } from 'node:fs/promises';
import type { PagesPart } from '../addon/images.js';
import { KfdError } from '../errors.js';
import { storeName } from './layers.js';
import { imagePrefix } from './names.js';
import type { Descriptor } from './oci-layout.js';
import { mediaTypes, putFile } from './oci-writer.js';
import { blockBytes, decodeTarHeader, padded, withSize } from './tar-header.js';

/** Where the store begins in its layer: behind two headers. */
export const storeBegin = 2 * blockBytes;

/** The layer before the store `name` of `size` bytes. */
export function storeHead(name: string, size: number): Buffer {
  return Buffer.concat([
    header(imagePrefix, '5', 0o700, 0),
    header(imagePrefix + name, '0', 0o600, size),
  ]);
}

/** The layer behind it, with the end marker. */
export function storeTail(size: number): Buffer {
  return Buffer.alloc(padded(size) - size + 2 * blockBytes);
}

/** Of root, from 1970: as GNU tar writes it, which has sizes of any length. */
function header(name: string, type: string, mode: number, size: number): Buffer {
  const block = Buffer.alloc(blockBytes);
  const octal = (value: number, at: number, bytes: number) =>
    block.write(`${value.toString(8).padStart(bytes - 1, '0')}\0`, at, 'latin1');
  block.write(name, 0, 'latin1');
  octal(mode, 100, 8);
  octal(0, 108, 8);
  octal(0, 116, 8);
  octal(0, 136, 12);
  block.write(type, 156, 'latin1');
  block.write('ustar  \0', 257, 'latin1');
  return withSize(block, size);
}

/** The store in the layer at `path`, whose root is known; undefined for a layer that is not made like that. */
export async function storeIn(path: string, root: string): Promise<PagesPart | undefined> {
  const file = await open(path);
  try {
    const head = Buffer.alloc(storeBegin);
    await file.read(head, 0, storeBegin, 0);
    const found = decodeTarHeader(head.subarray(blockBytes));
    const name = found && storeName(found.name);
    if (found === undefined || name === undefined) return undefined;
    if (!head.equals(storeHead(name, found.size))) return undefined;
    const { size } = await file.stat();
    if (size !== storeBegin + found.size + storeTail(found.size).length) return undefined;
    const gpu = Number.parseInt(name.slice(-8, -4), 16);
    return { path, offset: storeBegin, size: found.size, process: 0, gpu, root };
  } finally {
    await file.close();
  }
}

/**
 * Makes the file `path`, which has a store of `size` bytes at `storeBegin`, a layer in the layout `dir`. Throws E_IO,
 * Node's error.
 */
export async function putStore(
  dir: string,
  path: string,
  name: string,
  size: number,
): Promise<Descriptor> {
  const file = await open(path, 'r+');
  try {
    await writeAt(file, storeHead(name, size), 0);
    await writeAt(file, storeTail(size), storeBegin + size);
  } finally {
    await file.close();
  }
  return putFile(dir, mediaTypes.layer, path);
}

/** A file system that gets full writes a part, and says nothing. */
async function writeAt(file: FileHandle, bytes: Buffer, at: number): Promise<void> {
  const { bytesWritten } = await file.write(bytes, 0, bytes.length, at);
  if (bytesWritten === bytes.length) return;
  throw new KfdError('E_IO', 'a layer cannot be written whole', {
    hint: 'make room on the file system of the layout',
  });
}
