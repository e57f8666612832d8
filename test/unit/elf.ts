/** Files that pass for programs and libraries. */

/** An ELF header, `content`, and one section header at the end, as linkers lay it out. */
export function elf(content: string | Buffer): Buffer {
  const header = Buffer.alloc(64);
  header.write('\x7fELF\x02\x01\x01', 'latin1');
  const bytes = Buffer.from(content);
  header.writeBigUInt64LE(BigInt(64 + bytes.length), 0x28);
  header.writeUInt16LE(64, 0x3a);
  header.writeUInt16LE(1, 0x3c);
  return Buffer.concat([header, bytes, Buffer.alloc(64)]);
}
