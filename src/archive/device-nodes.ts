/**
 * The device nodes in CRIU's image of a tmpfs, which is a tar file of GNU tar's. Headers of devices
 * get other numbers; every other byte stays, so that nothing tar knows and we do not is lost.
 */

import { posix } from 'node:path';
import { KfdError } from '../errors.js';
import type { DeviceMove } from '../gpu/device-numbers.js';
import {
  blockBytes,
  decodePax,
  decodeTarHeader,
  padded,
  type TarHeader,
  withDevice,
} from './tar-header.js';

/** An image of a tmpfs in CRIU's directory; the number is that of the mount. */
export const tmpfsImagePattern = /^tmpfs-dev-\d{1,10}\.tar\.gz\.img$/;

export interface RewrittenNodes {
  /** The tar file; the input itself when nothing in it has moved. */
  readonly tar: Buffer;
  /** Those of `moves` of which there is a node. */
  readonly found: ReadonlySet<DeviceMove>;
}

/** One entry with what belongs to it. */
interface RawEntry {
  readonly header: TarHeader;
  /** Pax and GNU headers before the block. */
  readonly before: Buffer;
  readonly block: Buffer;
  readonly after: Buffer;
  /** The name in the block is not that of the entry. */
  readonly isRenamed: boolean;
}

/**
 * Gives every node of a moved device the new number. A render node also gets the name that belongs
 * to its new minor, for programs find it by the topology of the host they are on; its old name
 * stays, as long as that is not the new name of another GPU. Throws E_IMAGE_CORRUPT.
 */
export function rewriteNodes(tar: Buffer, moves: readonly DeviceMove[]): RewrittenNodes {
  const { entries, end } = entriesOf(tar);
  const byNumber = new Map(moves.map((move) => [`${move.from.major}:${move.from.minor}`, move]));
  const moveOf = ({ header }: RawEntry) =>
    header.type === '3' ? byNumber.get(`${header.devMajor}:${header.devMinor}`) : undefined;

  const found = new Set<DeviceMove>();
  /** Names of nodes to be, so that no other keeps or gets them. */
  const proper = new Map<string, DeviceMove>();
  for (const entry of entries) {
    const move = moveOf(entry);
    if (move === undefined) continue;
    found.add(move);
    const name = properName(entry, move);
    if (name !== undefined) proper.set(plain(name), move);
  }
  if (found.size === 0) return { tar, found: withArrived(found, entries, moves) };

  const made = new Set<string>();
  const pieces = entries.flatMap((entry): Buffer[] => {
    const move = moveOf(entry);
    const owner = proper.get(plain(entry.header.name));
    if (move === undefined) {
      // A node of a GPU that no process saw gives way, and so does whatever else has the name.
      return owner === undefined ? [entry.before, entry.block, entry.after] : [];
    }
    const written: Buffer[] = [];
    const write = (name?: string) =>
      written.push(entry.before, withDevice(entry.block, move.to, name), entry.after);
    const name = properName(entry, move);
    if (name !== undefined && !made.has(plain(name))) {
      made.add(plain(name));
      write(name);
    }
    const isSame = name !== undefined && plain(name) === plain(entry.header.name);
    if (!isSame && owner === undefined) write();
    return written;
  });
  return { tar: Buffer.concat([...pieces, end]), found: withArrived(found, entries, moves) };
}

/** Also those whose node is there with its new number: this was done before, and interrupted after. */
function withArrived(
  found: ReadonlySet<DeviceMove>,
  entries: readonly RawEntry[],
  moves: readonly DeviceMove[],
): ReadonlySet<DeviceMove> {
  const numbers = new Set(
    entries
      .filter(({ header }) => header.type === '3')
      .map(({ header }) => `${header.devMajor}:${header.devMinor}`),
  );
  return new Set([...found, ...moves.filter(({ to }) => numbers.has(`${to.major}:${to.minor}`))]);
}

/** Where the node would be on a host that has the device at its new minor; undefined: the name does not show it. */
function properName({ header, isRenamed }: RawEntry, { gpu, to }: DeviceMove): string | undefined {
  const [, folder] = /^(.*\/)renderD\d+$/.exec(header.name) ?? [];
  if (gpu === undefined || isRenamed || folder === undefined) return undefined;
  return `${folder}renderD${to.minor}`;
}

function plain(name: string): string {
  return posix.normalize(name);
}

/** All entries, and the end of the archive with its padding. */
function entriesOf(tar: Buffer): { entries: RawEntry[]; end: Buffer } {
  const entries: RawEntry[] = [];
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
      return { entries, end: tar.subarray(at) };
    }
    if ('xgLK'.includes(header.type)) {
      const body = take(at + blockBytes, padded(header.size)).subarray(0, header.size);
      isRenamed ||= header.type === 'L' || (header.type === 'x' && decodePax(body).has('path'));
      at += blockBytes + padded(header.size);
      continue;
    }
    const behind = at + blockBytes;
    let length = sparseBytes(block, (offset) => take(behind + offset, blockBytes));
    // Links and devices have no contents, whatever their size says.
    if (!'123456'.includes(header.type)) length += padded(header.size);
    entries.push({
      header,
      before: tar.subarray(start, at),
      block,
      after: take(behind, length),
      isRenamed,
    });
    start = behind + length;
    at = start;
    isRenamed = false;
  }
}

/** Bytes of the further headers of a file with holes: GNU's extension of its old format. */
function sparseBytes(block: Buffer, next: (offset: number) => Buffer): number {
  if (block[156] !== 0x53 || block[482] === 0) return 0; // "S", isextended
  let bytes = 0;
  for (let more = true; more; bytes += blockBytes) more = next(bytes)[504] !== 0;
  return bytes;
}

function corrupt(reason: string): KfdError {
  return new KfdError('E_IMAGE_CORRUPT', `image of a tmpfs: ${reason}`);
}
