/** Logs for the report: CRIU's, and those of sessions. */

import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { regularFile } from '../os/files.js';

/** Most bytes that are read, from the end of a log: what failed is there. */
const tailBytes = 64 << 10;

/** The end of a file; undefined when there is none. */
export async function tailOf(path: string): Promise<string | undefined> {
  const handle = await regularFile(path).catch(() => undefined);
  if (handle === undefined) return undefined;
  try {
    const { size } = await handle.stat();
    const from = Math.max(0, size - tailBytes);
    const { buffer, bytesRead } = await handle.read(
      Buffer.alloc(size - from),
      0,
      size - from,
      from,
    );
    return buffer.toString('utf8', 0, bytesRead);
  } finally {
    await handle.close();
  }
}

/** The newest log of a session of this kind that was written since `since` (milliseconds); undefined without one. */
export async function sessionLog(
  folder: string,
  kind: 'dump' | 'restore',
  since: number,
): Promise<string | undefined> {
  const names = await readdir(folder).catch((): string[] => []);
  // Names begin with the time, in a form that sorts.
  const candidates = names.filter((name) => new RegExp(`Z-${kind}-\\d+\\.log$`).test(name)).sort();
  const newest = candidates.at(-1);
  if (newest === undefined) return undefined;
  const path = join(folder, newest);
  const { mtimeMs } = await stat(path);
  return mtimeMs >= since ? path : undefined;
}
