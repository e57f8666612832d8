/** The records of a pax header: "length key=value\n". */

import { KfdError } from '../errors.js';

/** Values by key; the last one counts. Throws E_IMAGE_CORRUPT. */
export function decodePax(bytes: Buffer): ReadonlyMap<string, string> {
  return new Map(
    [...recordsOf(bytes)].map(({ key, value }): [string, string] => [key, value.toString('utf8')]),
  );
}

/** The same records byte for byte, without those of `key`. Throws E_IMAGE_CORRUPT. */
export function withoutRecord(bytes: Buffer, key: string): Buffer {
  return Buffer.concat(
    [...recordsOf(bytes)].filter((record) => record.key !== key).map(({ whole }) => whole),
  );
}

function* recordsOf(bytes: Buffer): Generator<{ key: string; value: Buffer; whole: Buffer }> {
  for (let at = 0; at < bytes.length; ) {
    const space = bytes.indexOf(0x20, at);
    const digits = space === -1 ? '' : bytes.toString('latin1', at, Math.min(space, at + 10));
    const end = /^[1-9]\d*$/.test(digits) ? at + Number(digits) : -1;
    // No digit, no space and nothing behind the header is a line end: a length that is too small or too large has none.
    if (bytes[end - 1] !== 0x0a) {
      throw new KfdError('E_IMAGE_CORRUPT', 'tar: a pax record is cut');
    }
    const equals = bytes.indexOf(0x3d, space);
    if (equals === -1 || equals >= end) {
      throw new KfdError('E_IMAGE_CORRUPT', 'tar: a pax record without "="');
    }
    yield {
      key: bytes.toString('utf8', space + 1, equals),
      value: bytes.subarray(equals + 1, end - 1),
      whole: bytes.subarray(at, end),
    };
    at = end;
  }
}
