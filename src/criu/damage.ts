/** Whether a file of the package is whole enough to be given to every CRIU and podman of the host. */

/**
 * False for what a full disk or a broken download leaves of a 64-bit little-endian ELF file: CRIU
 * fails every dump when its plugin does not load. `text` has one character per byte. Offsets are
 * those of Elf64_Ehdr; linkers put the section headers, which are looked for, at the end.
 */
export function isWholeElf(text: string): boolean {
  const bytes = Buffer.from(text, 'latin1');
  if (bytes.length < 64 || !text.startsWith('\x7fELF\x02\x01')) return false;
  const sections = bytes.readBigUInt64LE(0x28);
  const end = sections + BigInt(bytes.readUInt16LE(0x3a) * bytes.readUInt16LE(0x3c));
  return end <= BigInt(bytes.length);
}

/** False for an empty, cut or foreign text in the place of one of our shell scripts. */
export function isWholeScript(text: string): boolean {
  return /^#!\/bin\/sh\n[^\0]*\nexit [01]\n$/.test(text);
}
