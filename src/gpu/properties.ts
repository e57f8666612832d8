/** The "key decimal" lines of KFD's topology files. */

/**
 * Keys with values up to 2^53. Larger values (unique_id, hive_id) and malformed lines are left out. New kernels add
 * lines to these files.
 */
export function parseProperties(text: string): ReadonlyMap<string, number> {
  const properties = new Map<string, number>();
  for (const line of text.split('\n')) {
    const match = /^(\w+) (\d+)$/.exec(line);
    if (match?.[1] === undefined) continue;
    const value = Number(match[2]);
    if (Number.isSafeInteger(value)) properties.set(match[1], value);
  }
  return properties;
}

/** A GPU's hive, a 64-bit number in decimal; undefined for a GPU with PCIe links only. */
export function hiveId(text: string): string | undefined {
  const id = /^hive_id (\d{1,20})$/m.exec(text)?.[1];
  return id === '0' ? undefined : id;
}

/** The LLVM name of a gfx_target_version: 90010 is "gfx90a". */
export function gfxName(version: number): string {
  const major = Math.floor(version / 10000);
  const minor = Math.floor(version / 100) % 100;
  const stepping = version % 100;
  return `gfx${major}${minor.toString(16)}${stepping.toString(16)}`;
}
