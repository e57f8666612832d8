/** Whether a file of the package is complete. All CRIUs and podmans of the host will use it. */

/**
 * False for a cut 64-bit little-endian ELF file, as a full disk or a broken download leaves it. CRIU fails every dump
 * when its plugin does not load. `text` has one character per byte. Offsets as in Elf64_Ehdr. The check looks
 * for the section headers, which linkers put at the end.
 */
export function isWholeElf(text: string): boolean {
  const bytes = Buffer.from(text, 'latin1');
  if (bytes.length < 64 || !text.startsWith('\x7fELF\x02\x01')) return false;
  const sections = bytes.readBigUInt64LE(0x28);
  const end = sections + BigInt(bytes.readUInt16LE(0x3a) * bytes.readUInt16LE(0x3c));
  return end <= BigInt(bytes.length);
}

/** False for an empty, cut or foreign text instead of a shell script of this package. */
export function isWholeScript(text: string): boolean {
  return /^#!\/bin\/sh\n[^\0]*\nexit [01]\n$/.test(text);
}
