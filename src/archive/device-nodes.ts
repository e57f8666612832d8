/**
 * The device nodes in CRIU's image of a tmpfs, which is a file of GNU tar. Headers of devices get new numbers. Every
 * other byte stays, so that no information of tar is lost.
 */

import { posix } from 'node:path';
import { KfdError } from '../errors.js';
import { type DeviceMove, numbers } from '../gpu/device-numbers.js';
import type { DeviceNumber } from '../gpu/host.js';
import { decodePax } from './pax.js';
import { blockBytes, decodeTarHeader, padded, type TarHeader, withDevice } from './tar-header.js';

/** An image of a tmpfs in CRIU's directory, with the number of the mount. */
export const tmpfsImagePattern = /^tmpfs-dev-\d{1,10}\.tar\.gz\.img$/;

export interface RewrittenNodes {
  /** The tar file, or the input itself when no device has moved. */
  readonly tar: Buffer;
  /** The elements of `moves` that have a node. */
  readonly found: ReadonlySet<DeviceMove>;
}

/** One entry with its headers and contents. */
interface RawEntry {
  readonly header: TarHeader;
  /** Pax and GNU headers before the block. */
  readonly before: Buffer;
  readonly block: Buffer;
  readonly after: Buffer;
  /** Another header has the name of the entry. */
  readonly isRenamed: boolean;
  /** Offset of the next entry. */
  readonly end: number;
}

/** More entries than any /dev has. */
const maxEntries = 16_384;

/**
 * Whether it has character devices. An image with more entries than any /dev has none that count. Throws
 * E_IMAGE_CORRUPT.
 */
export function hasDevices(tar: Buffer): boolean {
  let count = 0;
  let found = false;
  for (const { header } of entriesOf(tar)) {
    if (++count > maxEntries) return false;
    found ||= header.type === '3';
  }
  return found;
}

/**
 * Gives every node of a moved device the new number. A node of a GPU also gets the name of its new minor, because
 * programs find it by the topology of their host. Its old name stays, unless it is the new name of another GPU. Nodes
 * with a number among `gone` are left out. Throws E_IMAGE_CORRUPT.
 */
export function rewriteNodes(
  tar: Buffer,
  moves: readonly DeviceMove[],
  gone: readonly DeviceNumber[] = [],
): RewrittenNodes {
  const entries: RawEntry[] = [];
  let behind = 0;
  for (const entry of entriesOf(tar)) {
    entries.push(entry);
    behind = entry.end;
  }
  const end = tar.subarray(behind);
  const byNumber = new Map(moves.map((move) => [numbers(move.from), move]));
  const moveOf = (entry: RawEntry) => byNumber.get(numberOf(entry) ?? '');
  const lost = new Set(gone.map(numbers));
  const isGone = (entry: RawEntry) => lost.has(numberOf(entry) ?? '');

  const found = new Set<DeviceMove>();
  /** Names of new nodes. No other node keeps or gets one of them. */
  const proper = new Map<string, DeviceMove>();
  for (const entry of entries) {
    const move = moveOf(entry);
    if (move === undefined) continue;
    found.add(move);
    const name = properName(entry, move);
    if (name !== undefined) proper.set(plain(name), move);
  }
  if (found.size === 0 && !entries.some(isGone))
    return { tar, found: withArrived(found, entries, moves) };

  const made = new Set<string>();
  const pieces = entries.flatMap((entry): Buffer[] => {
    const move = moveOf(entry);
    const owner = proper.get(plain(entry.header.name));
    if (move === undefined) {
      // Any other entry with this name is removed, for example a node of a GPU that no process saw.
      return owner === undefined && !isGone(entry) ? [entry.before, entry.block, entry.after] : [];
    }
    const written: Buffer[] = [];
    const write = (name?: string) =>
      written.push(entry.before, withDevice(entry.block, move.to, name), entry.after);
    const name = properName(entry, move);
    if (name !== undefined && !made.has(plain(name))) {
      made.add(plain(name));
      write(name);
    }
    if (owner === undefined) write();
    return written;
  });
  return { tar: Buffer.concat([...pieces, end]), found: withArrived(found, entries, moves) };
}

/** Also counts nodes that have the new number already: an earlier run was interrupted later. */
function withArrived(
  found: ReadonlySet<DeviceMove>,
  entries: readonly RawEntry[],
  moves: readonly DeviceMove[],
): ReadonlySet<DeviceMove> {
  const present = new Set(entries.map(numberOf));
  return new Set([...found, ...moves.filter(({ to }) => present.has(numbers(to)))]);
}

/** "major:minor" of a character device. */
function numberOf({ header }: RawEntry): string | undefined {
  return header.type === '3'
    ? numbers({ major: header.devMajor, minor: header.devMinor })
    : undefined;
}

/** The node's name on a host that has the device at its new minor; undefined when the name has no number. */
function properName({ header, isRenamed }: RawEntry, { node, to }: DeviceMove): string | undefined {
  const [, folder, kind] = /^(.*\/)(renderD|card)\d+$/.exec(header.name) ?? [];
  if (kind === undefined || kind !== node || isRenamed) return undefined;
  return `${folder}${node}${to.minor}`;
}

function plain(name: string): string {
  return posix.normalize(name);
}

/** All entries up to the end marker. */
function* entriesOf(tar: Buffer): Generator<RawEntry> {
  const take = (from: number, bytes: number): Buffer => {
    if (from + bytes > tar.length) throw corrupt('the end is missing');
    return tar.subarray(from, from + bytes);
  };
  let start = 0;
  let at = 0;
  let isRenamed = false;
  for (;;) {
    const block = take(at, blockBytes);
    const header = decodeTarHeader(block);
    if (header === undefined) {
      if (start !== at) throw corrupt('a header without its entry');
      return;
    }
    if ('xgLK'.includes(header.type)) {
      const body = take(at + blockBytes, padded(header.size)).subarray(0, header.size);
      isRenamed ||= header.type === 'L' || (header.type === 'x' && decodePax(body).has('path'));
      at += blockBytes + padded(header.size);
      continue;
    }
    const behind = at + blockBytes;
    let length = sparseBytes(block, (offset) => take(behind + offset, blockBytes));
    // Links and devices have no contents. Their size is ignored.
    if (!'123456'.includes(header.type)) length += padded(header.size);
    const end = behind + length;
    const after = take(behind, length);
    yield { header, before: tar.subarray(start, at), block, after, isRenamed, end };
    start = end;
    at = end;
    isRenamed = false;
  }
}

/** Bytes of the extra headers of a file with holes (GNU's old format). */
function sparseBytes(block: Buffer, next: (offset: number) => Buffer): number {
  if (block[156] !== 0x53 || block[482] === 0) return 0; // "S", isextended
  let bytes = 0;
  for (let more = true; more; bytes += blockBytes) more = next(bytes)[504] !== 0;
  return bytes;
}

function corrupt(reason: string): KfdError {
  return new KfdError('E_IMAGE_CORRUPT', `image of a tmpfs: ${reason}`);
}
