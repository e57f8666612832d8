/** External mounts in CRIU's `mountpoints-*.img`. CRIU judges its own files: a damaged one has none here. */

import { KfdError } from '../errors.js';
import { fieldsOf } from '../protobuf.js';
import { imagePrefix } from './names.js';

/** Of an image of mounts: IMG_COMMON_MAGIC and MNTS_MAGIC, little endian (criu/include/magic.h@4.2). */
const magic = [0x54564319, 0x55563928] as const;
/** `ext_key` in images/mnt.proto@4.2. */
const keyField = 18;
/** Bytes of the largest image that is read. An entry has about 200. */
export const maxMountsBytes = 1 << 20;

/** `name`: plain name of an entry. */
export function isMountsImage(name: string): boolean {
  return (
    name.startsWith(imagePrefix) && /^mountpoints-\d+\.img$/.test(name.slice(imagePrefix.length))
  );
}

/** The names by which a restore has to give the external mounts to CRIU. */
export function externalMounts(image: Buffer): string[] {
  const names: string[] = [];
  try {
    // Field by field: a hostile image has half a million of them.
    for (const entry of entriesOf(image)) {
      for (const { number, value } of fieldsOf(entry))
        if (number === keyField && typeof value !== 'bigint') names.push(value.toString());
    }
    return names;
  } catch (error) {
    if (error instanceof KfdError && error.code === 'E_PROTOCOL') return [];
    throw error;
  }
}

/** The messages: each is behind its length, 4 bytes. None where the file is no such image, or is cut. */
function* entriesOf(image: Buffer): Generator<Buffer> {
  let at = magic.length * 4;
  if (image.length < at || magic.some((word, i) => image.readUInt32LE(i * 4) !== word)) return;
  while (at + 4 <= image.length) {
    const end = at + 4 + image.readUInt32LE(at);
    if (end > image.length) return;
    yield image.subarray(at + 4, end);
    at = end;
  }
}
