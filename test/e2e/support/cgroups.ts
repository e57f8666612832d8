/** Cgroups of sessions, and those that sessions make below the cgroups of containers. */

import { readdirSync } from 'node:fs';
import { join } from 'node:path';

/** Paths of all there are now. */
export function sessionCgroups(folder = '/sys/fs/cgroup'): string[] {
  return foldersIn(folder).flatMap((name) => {
    const path = join(folder, name);
    const isSession = folder.endsWith('/kfd-checkpoint');
    return isSession || /^kfd-checkpoint-\d+$/.test(name) ? [path] : sessionCgroups(path);
  });
}

function foldersIn(folder: string): string[] {
  try {
    const entries = readdirSync(folder, { withFileTypes: true });
    return entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
  } catch {
    return []; // it has just gone
  }
}
