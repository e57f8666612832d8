/** One 512-byte header of a tar archive (POSIX ustar and GNU), and the records of a pax header. */

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

const checksumAt = 148;
const deviceAt = { major: 329, minor: 337, bytes: 8 };

/** Throws E_IMAGE_CORRUPT; undefined for a block of zeros. Two such blocks end an archive. */
export function decodeTarHeader(block: Buffer): TarHeader | undefined {
  if (block.length !== blockBytes) throw corrupt('a header is cut');
  if (block.every((byte) => byte === 0)) return undefined;
  if (number(block, checksumAt, 8) !== checksumOf(block)) throw corrupt('wrong header checksum');
  const magic = block.toString('latin1', 257, 263);
  if (magic !== 'ustar\0' && magic !== 'ustar ') throw corrupt('not a ustar header');
  const flag = String.fromCharCode(block[156] ?? 0);
  const name = text(block, 0, 100);
  // GNU has times at the place of the POSIX prefix.
  const prefix = magic === 'ustar\0' ? text(block, 345, 155) : '';
  const isDevice = flag === '3' || flag === '4';
  return {
    name: prefix === '' ? name : `${prefix}/${name}`,
    type: flag === '\0' ? '0' : flag,
    size: number(block, 124, 12),
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
  const octal = (value: number, at: number, bytes: number) => {
    const digits = value.toString(8).padStart(bytes - 1, '0');
    if (digits.length >= bytes) throw corrupt(`the device number ${value} is beyond tar's format`);
    copy.write(`${digits}\0`, at, 'latin1');
  };
  octal(device.major, deviceAt.major, deviceAt.bytes);
  octal(device.minor, deviceAt.minor, deviceAt.bytes);
  if (name !== undefined) {
    if (Buffer.byteLength(name) >= 100) throw corrupt('a name is too long');
    copy.fill(0, 0, 100).write(name, 0);
    if (copy.toString('latin1', 257, 263) === 'ustar\0') copy.fill(0, 345, 500);
  }
  copy.write(`${checksumOf(copy).toString(8).padStart(6, '0')}\0 `, checksumAt, 'latin1');
  return copy;
}

/** "length key=value\n" records. Throws E_IMAGE_CORRUPT. */
export function decodePax(bytes: Buffer): ReadonlyMap<string, string> {
  const records = new Map<string, string>();
  for (let at = 0; at < bytes.length; ) {
    // GNU tar pads shortened records with zeros.
    const space = bytes.indexOf(0x20, at);
    const digits = space === -1 ? '' : bytes.toString('latin1', at, Math.min(space, at + 10));
    const end = /^[1-9]\d*$/.test(digits) ? at + Number(digits) : -1;
    const equals = bytes.indexOf(0x3d, space);
    if (end <= space + 1 || end > bytes.length || bytes[end - 1] !== 0x0a) {
      throw corrupt('a pax record is cut');
    }
    if (equals === -1 || equals >= end) throw corrupt('a pax record without "="');
    records.set(
      bytes.toString('utf8', space + 1, equals),
      bytes.toString('utf8', equals + 1, end - 1),
    );
    at = end;
  }
  return records;
}

/** Bytes of an entry of `size` after its header. Sizes are below 2^50, so this is exact. */
export function padded(size: number): number {
  return Math.ceil(size / blockBytes) * blockBytes;
}

function text(block: Buffer, at: number, bytes: number): string {
  const end = block.indexOf(0, at);
  return block.toString('utf8', at, end === -1 || end > at + bytes ? at + bytes : end);
}

/** Octal digits, or GNU's base 256 with the first bit set. */
function number(block: Buffer, at: number, bytes: number): number {
  const field = block.subarray(at, at + bytes);
  if ((field[0] ?? 0) & 0x80) {
    let value = (field[0] ?? 0) & 0x7f;
    for (const byte of field.subarray(1)) value = value * 256 + byte;
    if (!Number.isSafeInteger(value)) throw corrupt('a number is too large');
    return value;
  }
  const digits = field
    .toString('latin1')
    .replace(/[\0 ]+$/, '')
    .trimStart();
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
