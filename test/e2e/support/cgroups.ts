/** Cgroups that sessions make below those of containers. */

import { readdirSync } from 'node:fs';
import { join } from 'node:path';

/** Paths of all there are now. */
export function filterCgroups(folder = '/sys/fs/cgroup'): string[] {
  return foldersIn(folder).flatMap((name) => {
    const path = join(folder, name);
    return /^kfd-checkpoint-\d+$/.test(name) ? [path] : filterCgroups(path);
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
