/** CRIU's images of mounts, made in memory: a few fields of each entry. */

import { bytesField, numberField } from '../../src/protobuf.js';

/** `keys`: names of external mounts; undefined: any other mount. */
export function mountsImage(...keys: readonly (string | undefined)[]): Buffer {
  const head = Buffer.alloc(8);
  head.writeUInt32LE(0x54564319);
  head.writeUInt32LE(0x55563928, 4);
  const entries = keys.map((key) => {
    const point = [numberField(2, 109n), bytesField(7, './proc/acpi')];
    const entry = Buffer.concat([...point, ...(key === undefined ? [] : [bytesField(18, key)])]);
    const size = Buffer.alloc(4);
    size.writeUInt32LE(entry.length);
    return Buffer.concat([size, entry]);
  });
  return Buffer.concat([head, ...entries]);
}
