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

/** Times of files are those of the kernel's last tick, at 100 ticks a second the oldest. */
const tickMs = 10;

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
  return mtimeMs >= since - tickMs ? path : undefined;
}

/** What a session says at its end. */
export interface SessionFacts {
  readonly contentBytes: number;
  /** Microseconds by name: docs/observing.md, "Timings". */
  readonly timings: Readonly<Record<string, number>>;
}

/** Of a session's log whose session has ended; undefined before that, and when it says nothing of contents. */
export function sessionFacts(log: string): SessionFacts | undefined {
  let contentBytes: number | undefined;
  let timings: Record<string, number> = {};
  let ended = false;
  for (const line of log.split('\n')) {
    if (!/"msg":"(sealed|session ended)"/.test(line)) continue;
    const said = parsed(line);
    contentBytes = said.content_bytes ?? contentBytes;
    timings = { ...timings, ...said.timings_us };
    ended ||= line.includes('"session ended"');
  }
  return ended && contentBytes !== undefined ? { contentBytes, timings } : undefined;
}

/** Lines of which a part is missing say nothing. */
function parsed(line: string): { content_bytes?: number; timings_us?: Record<string, number> } {
  try {
    return JSON.parse(line) as ReturnType<typeof parsed>;
  } catch {
    return {};
  }
}
