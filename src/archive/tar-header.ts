/**
 * One 512-byte header of a tar archive (POSIX ustar and GNU). What GNU tar, Go's archive/tar and libarchive read in
 * different ways is refused.
 */

import { KfdError } from '../errors.js';

export const blockBytes = 512;

export interface TarHeader {
  /** The name in the block, with ustar's prefix. A pax or GNU header before it may override it. */
  readonly name: string;
  /** The type flag: "0" file, "3" character device, "5" directory, "x" pax, ...; "\0" is read as "0". */
  readonly type: string;
  /** Size of the contents in bytes, without padding. */
  readonly size: number;
  readonly devMajor: number;
  readonly devMinor: number;
}

const zeros = Buffer.alloc(blockBytes);
const checksumAt = 148;
const sizeAt = 124;
const sizeFieldBytes = 12;
const deviceAt = { major: 329, minor: 337, bytes: 8 };
/** Where POSIX has the prefix, GNU has the times of the last access and change. */
const prefixAt = 345;
const starTrailer = 'tar\0';

/** Throws E_IMAGE_CORRUPT; undefined for a block of zeros. Two such blocks end an archive. */
export function decodeTarHeader(block: Buffer): TarHeader | undefined {
  if (block.length !== blockBytes) throw corrupt('a header is cut');
  if (block.equals(zeros)) return undefined;
  if (number(block, checksumAt, 8) !== checksumOf(block)) throw corrupt('wrong header checksum');
  const magic = block.toString('latin1', 257, 263);
  if (magic !== 'ustar\0' && magic !== 'ustar ') throw corrupt('not a ustar header');
  const isPosix = magic === 'ustar\0';
  // The prefix of this format is shorter, and times follow it.
  if (isPosix && block.toString('latin1', 508) === starTrailer) throw corrupt('a header of star');
  // Go takes text in these fields for a prefix.
  if (!isPosix) for (const at of [prefixAt, prefixAt + 12]) number(block, at, 12);
  const flag = String.fromCharCode(block[156] ?? 0);
  const name = text(block, 0, 100);
  const prefix = isPosix ? text(block, prefixAt, 155) : '';
  const isDevice = flag === '3' || flag === '4';
  return {
    name: prefix === '' ? name : `${prefix}/${name}`,
    type: flag === '\0' ? '0' : flag,
    size: number(block, sizeAt, sizeFieldBytes),
    devMajor: isDevice ? number(block, deviceAt.major, deviceAt.bytes) : 0,
    devMinor: isDevice ? number(block, deviceAt.minor, deviceAt.bytes) : 0,
  };
}

/** A copy of the header of a device with another number and, if given, another name. */
export function withDevice(
  block: Buffer,
  device: { readonly major: number; readonly minor: number },
  name?: string,
): Buffer {
  const copy = Buffer.from(block);
  for (const part of ['major', 'minor'] as const) {
    if (!writeOctal(copy, device[part], deviceAt[part], deviceAt.bytes)) {
      throw corrupt(`the device number ${device[part]} is beyond tar's format`);
    }
  }
  if (name !== undefined) {
    if (Buffer.byteLength(name) >= 100) throw corrupt('a name is too long');
    copy.fill(0, 0, 100).write(name, 0);
    if (copy.toString('latin1', 257, 263) === 'ustar\0') copy.fill(0, prefixAt, 500);
  }
  return checksummed(copy);
}

/** A copy of the header with another size, in bytes. */
export function withSize(block: Buffer, size: number): Buffer {
  const copy = Buffer.from(block);
  if (!writeOctal(copy, size, sizeAt, sizeFieldBytes)) {
    // GNU's base 256.
    copy.fill(0, sizeAt, sizeAt + sizeFieldBytes)[sizeAt] = 0x80;
    copy.writeBigUInt64BE(BigInt(size), sizeAt + 4);
  }
  return checksummed(copy);
}

/** Bytes of an entry of `size` after its header. Sizes are below 2^50, so this is exact. */
export function padded(size: number): number {
  return Math.ceil(size / blockBytes) * blockBytes;
}

/** False when the number has too many digits; then nothing was written. */
function writeOctal(block: Buffer, value: number, at: number, bytes: number): boolean {
  const digits = value.toString(8).padStart(bytes - 1, '0');
  if (digits.length >= bytes) return false;
  block.write(`${digits}\0`, at, 'latin1');
  return true;
}

function checksummed(block: Buffer): Buffer {
  block.write(`${checksumOf(block).toString(8).padStart(6, '0')}\0 `, checksumAt, 'latin1');
  return block;
}

function text(block: Buffer, at: number, bytes: number): string {
  const end = block.indexOf(0, at);
  return block.toString('utf8', at, end === -1 || end > at + bytes ? at + bytes : end);
}

/** Octal digits, or GNU's base 256 with the first bit set. Throws E_IMAGE_CORRUPT. */
function number(block: Buffer, at: number, bytes: number): number {
  const field = block.subarray(at, at + bytes);
  if ((field[0] ?? 0) & 0x80) {
    let value = (field[0] ?? 0) & 0x7f;
    for (const byte of field.subarray(1)) value = value * 256 + byte;
    if (!Number.isSafeInteger(value)) throw corrupt('a number is too large');
    return value;
  }
  const digits = field.toString('latin1').replace(/^ +|[\0 ]+$/g, '');
  if (!/^[0-7]*$/.test(digits)) throw corrupt('a number is not octal');
  return digits === '' ? 0 : Number.parseInt(digits, 8);
}

/** The sum of all bytes. Bytes of the checksum itself count as spaces. */
function checksumOf(block: Buffer): number {
  let sum = 8 * 0x20;
  for (let at = 0; at < blockBytes; at++) {
    if (at < checksumAt || at >= checksumAt + 8) sum += block[at] ?? 0;
  }
  return sum;
}

function corrupt(reason: string): KfdError {
  return new KfdError('E_IMAGE_CORRUPT', `tar: ${reason}`);
}
