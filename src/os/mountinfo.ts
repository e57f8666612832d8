/** Mounts of a process, from its `mountinfo` (proc_pid_mountinfo(5)). */

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { isMissing } from '../errors.js';

export interface Mount {
  /** The folder of the mounted file system that is seen at `point`. */
  readonly root: string;
  /** In the mount namespace of the process. */
  readonly point: string;
}

/** `root`: folder of the system. Empty for a process that has ended. */
export async function mountsOf(process: number | 'self', root: string): Promise<Mount[]> {
  const path = join(root, `proc/${process}/mountinfo`);
  const text = await readFile(path, 'utf8').catch((error: unknown) => {
    if (!isMissing(error)) throw error;
    return '';
  });
  return text.split('\n').flatMap((line) => {
    const [, , , mounted, point] = line.split(' ');
    if (mounted === undefined || point === undefined) return [];
    return [{ root: plain(mounted), point: plain(point) }];
  });
}

/** Octal numbers stand for white space. */
const plain = (path: string) =>
  path.replace(/\\([0-7]{3})/g, (_, octal: string) =>
    String.fromCharCode(Number.parseInt(octal, 8)),
  );
