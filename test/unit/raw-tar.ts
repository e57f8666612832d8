/** Tar archives block by block, as no well-meaning program writes them. */

export interface RawEntry {
  readonly name: string;
  readonly type?: string;
  readonly data?: Buffer;
  /** What the header claims, when it is not the length of `data`. */
  readonly size?: number;
  readonly major?: number;
  readonly minor?: number;
  /** Changes the finished header; its checksum is made afterwards. */
  readonly bend?: (block: Buffer) => void;
}

/** The entries and the end marker. */
export function rawTar(entries: readonly RawEntry[]): Buffer {
  const blocks = entries.flatMap((entry) => {
    const data = entry.data ?? Buffer.alloc(0);
    return [headerOf(entry), data, Buffer.alloc(-data.length & 511)];
  });
  return Buffer.concat([...blocks, Buffer.alloc(1024)]);
}

function headerOf({
  name,
  type = '0',
  data,
  size = data?.length ?? 0,
  major,
  minor,
  bend,
}: RawEntry): Buffer {
  const block = Buffer.alloc(512);
  const octal = (value: number, at: number, bytes: number) =>
    block.write(value.toString(8).padStart(bytes - 1, '0'), at, 'latin1');
  block.write(name, 0);
  octal(0o644, 100, 8);
  if (size < 8 ** 11) {
    octal(size, 124, 12);
  } else {
    block[124] = 0x80;
    block.writeBigUInt64BE(BigInt(size), 128);
  }
  block.write(type, 156);
  block.write('ustar\x0000', 257, 'latin1');
  if (major !== undefined) octal(major, 329, 8);
  if (minor !== undefined) octal(minor, 337, 8);
  bend?.(block);
  return checksummed(block);
}

/** Records of a pax header, "key=value" each, as the contents of an entry of type x or g. */
export function paxRecords(...records: readonly string[]): Buffer {
  const lines = records.map((record) => {
    const bytes = Buffer.byteLength(record) + 2;
    const length = bytes + `${bytes + `${bytes}`.length}`.length;
    return `${length} ${record}\n`;
  });
  return Buffer.from(lines.join(''));
}

/**
 * A copy with some bytes changed, and mostly the checksums of their blocks too, so that what lies behind those is
 * reached.
 */
export function mutated(tar: Buffer, random: (below: number) => number): Buffer {
  const bytes = Buffer.from(tar);
  for (let change = 1 + random(3); change > 0; change--) {
    const at = random(bytes.length);
    bytes[at] = random(256);
    const block = at - (at % 512);
    if (random(3) > 0) checksummed(bytes.subarray(block, block + 512)).copy(bytes, block);
  }
  return bytes;
}

/** A copy with the checksum that fits. */
export function checksummed(block: Buffer): Buffer {
  const copy = Buffer.from(block);
  copy.fill(' ', 148, 156);
  const sum = copy.subarray(0, 512).reduce((total, byte) => total + byte, 0);
  copy.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1');
  return copy;
}
