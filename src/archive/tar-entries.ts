/**
 * The entries of a tar archive, for every reader of this project. An archive that Go's archive/tar, with which podman
 * unpacks, would read in another way is refused: it could hide what a restore then uses.
 */

import type { FilePart } from '../addon.js';
import { KfdError } from '../errors.js';
import { decodePax, withoutRecord } from './pax.js';
import { damaged, type TarBytes } from './tar-bytes.js';
import { blockBytes, decodeTarHeader, padded, type TarHeader, withSize } from './tar-header.js';

export type EntryKind = 'file' | 'folder' | 'link' | 'special';

export interface TarEntry {
  /** The effective name, as it is in the archive. */
  readonly name: string;
  readonly kind: EntryKind;
  /** Bytes of contents: 0 for everything but files. */
  readonly size: number;
  /** May be read to any point, before the next entry is asked for. */
  readonly content: AsyncIterable<Buffer>;
  /** For random access; missing in a compressed archive. */
  readonly place?: FilePart;
  /** The bytes of all headers of the entry, with another size if one is given. */
  readonly headers: (size?: number) => Buffer;
}

/** A pax or GNU header, which describes the entry behind it. */
interface Extension {
  readonly type: string;
  readonly block: Buffer;
  readonly body: Buffer;
}

const limits = {
  /** Bytes of all pax and GNU headers of one entry. */
  extensionBytes: 1 << 20,
  /** Their number. Writers make three, and each new one is compared with those before. */
  extensions: 64,
  /** Headers in an archive. */
  headers: 1 << 18,
  entryBytes: 2 ** 50,
  /** Zeros behind the end marker: GNU tar fills its last record. */
  tailBytes: 1 << 20,
} as const;

const kinds: Readonly<Record<string, EntryKind>> = {
  '0': 'file',
  '1': 'link',
  '2': 'link',
  '3': 'special',
  '4': 'special',
  '5': 'folder',
  '6': 'special',
};

/**
 * Yields the entries in order, and returns when the archive has ended as it should. Throws E_IMAGE_CORRUPT and the
 * errors of `bytes`.
 */
export async function* tarEntries(bytes: TarBytes): AsyncGenerator<TarEntry> {
  const corrupt = (reason: string) =>
    new KfdError('E_IMAGE_CORRUPT', `${bytes.path}: ${reason}`, { hint: damaged });
  const decode = <T>(step: () => T): T => {
    try {
      return step();
    } catch (error) {
      throw corrupt((error as Error).message);
    }
  };
  let extensions: Extension[] = [];
  for (let count = 0; ; count++) {
    if (count > limits.headers) throw corrupt('more headers than any checkpoint has');
    const block = await bytes.take(blockBytes);
    const header = decode(() => decodeTarHeader(block));
    if (header === undefined) {
      if (extensions.length > 0) throw corrupt('a header without its entry');
      return assertEnd(bytes, corrupt);
    }
    if ('xgLK'.includes(header.type)) {
      if (extensions.length === limits.extensions) throw corrupt('too many headers of one entry');
      const kept = extensions.reduce((sum, { body }) => sum + body.length, 0);
      if (kept + header.size > limits.extensionBytes) throw corrupt('a header is too large');
      // Go forgets what comes before a global header, and all but the last of each other type.
      const isRepeated = extensions.some(({ type }) => type === header.type && type !== 'g');
      const isLate = header.type === 'g' && extensions.some(({ type }) => type !== 'g');
      if (isRepeated || isLate) throw corrupt('headers that contradict each other');
      const body = Buffer.from(await bytes.take(padded(header.size))).subarray(0, header.size);
      extensions.push({ type: header.type, block: Buffer.from(block), body });
      continue;
    }
    const { name, size } = decode(() => effective(header, extensions));
    const kind = kinds[header.type];
    if (kind === undefined) throw corrupt(`an entry of type "${header.type}"`);
    // Readers disagree about whether contents follow, and about what a file with a folder's name is.
    if (kind !== 'file' && size !== 0) throw corrupt('a link, folder or device with contents');
    if (kind === 'file' && name.endsWith('/')) throw corrupt('a file with the name of a folder');
    if (size > limits.entryBytes) throw corrupt(`${name}: beyond the limits of an archive`);
    const place = bytes.place?.(size);
    const before = extensions;
    yield {
      name,
      kind,
      size,
      ...(place && { place }),
      content: bytes.content(size),
      headers: (other) =>
        Buffer.concat(other === undefined ? raw(before, block) : resized(before, block, other)),
    };
    await bytes.skip(padded(size) - size);
    extensions = [];
  }
}

/** The name and size of an entry with these headers before its own. */
function effective(
  header: TarHeader,
  extensions: readonly Extension[],
): { name: string; size: number } {
  const corrupt = (reason: string) => new KfdError('E_IMAGE_CORRUPT', reason);
  let { name, size } = header;
  let isRenamed = false;
  for (const { type, body } of extensions) {
    if (type === 'K') continue;
    const records = type === 'L' ? new Map<string, string>() : decodePax(body);
    // libarchive takes the second for the size of the contents.
    const isSparse = (key: string) => key.startsWith('GNU.sparse.') || key === 'SCHILY.realsize';
    if ([...records.keys()].some(isSparse)) throw corrupt('a sparse file');
    // libarchive takes an empty size for 0, Go for none.
    const newSize = records.get('size');
    // An empty path means that there is none.
    const newName =
      type === 'L' ? body.toString('utf8').replace(/\0.*$/s, '') : records.get('path') || undefined;
    // No tool writes a name or a size for all entries: such an archive is hostile.
    if (type === 'g') {
      if (newSize === undefined && newName === undefined) continue;
      throw corrupt('a global header with a name or size');
    }
    if (newSize !== undefined) {
      if (!/^\d{1,15}$/.test(newSize)) throw corrupt('a size that is no number');
      size = Number(newSize);
    }
    if (newName === undefined) continue;
    // Go keeps the header's own name then: podman would unpack what nobody has judged.
    if (newName === '') throw corrupt('an empty name');
    if (newName.includes('\0')) throw corrupt('a name with a zero byte');
    if (isRenamed) throw corrupt('headers that contradict each other');
    isRenamed = true;
    name = newName;
  }
  return { name, size };
}

function raw(extensions: readonly Extension[], block: Buffer): Buffer[] {
  return [...extensions.flatMap((one) => [one.block, ...withPadding(one.body)]), block];
}

function withPadding(body: Buffer): Buffer[] {
  return [body, Buffer.alloc(padded(body.length) - body.length)];
}

function resized(extensions: readonly Extension[], block: Buffer, size: number): Buffer[] {
  const kept = extensions.flatMap((one): Extension[] => {
    if (one.type !== 'x') return [one];
    // A size in a pax header would override the size of the entry.
    const body = withoutRecord(one.body, 'size');
    return body.length === 0 ? [] : [{ ...one, body, block: withSize(one.block, body.length) }];
  });
  return raw(kept, withSize(block, size));
}

/** The second block of the end marker, and nothing but zeros behind it. */
async function assertEnd(bytes: TarBytes, corrupt: (reason: string) => KfdError): Promise<void> {
  const isZero = (block: Buffer) => block.every((byte) => byte === 0);
  if (!isZero(await bytes.take(blockBytes))) throw corrupt('half an end marker');
  const tail = await bytes.rest(limits.tailBytes + 1);
  if (tail.length > limits.tailBytes || !isZero(tail)) throw corrupt('something behind its end');
}
