/**
 * Masked folders of crun. From 1.24 on it mounts a folder of its own over them; before, it was a tmpfs. A checkpoint
 * has that as an external mount, which an earlier crun does not give to CRIU: "No mapping for ... mountpoint"
 * (src/libcrun/criu.c:register_masked_paths_mounts@1.28). Privileged containers have no masked folders.
 */

import { basename } from 'node:path';
import type { Mismatch } from '../gpu/mismatch.js';
import { mountsOf } from '../os/mountinfo.js';
import { isOlder, parseVersion } from './versions.js';

/** The first crun that restores them. */
const unmaskingCrun = '1.24';

/** The folder in crun's state folder (src/libcrun/status.c:get_shared_empty_directory_path@1.28). */
const maskName = '.empty-directory';

export const isCrunMask = (path: string): boolean => basename(path) === maskName;

/** Whether the container of this process has such mounts. */
export async function hasCrunMasks(pid: number, root: string): Promise<boolean> {
  const mounts = await mountsOf(pid, root);
  return mounts.some((mount) => isCrunMask(mount.root));
}

/** The reason against a restore by this crun. `version`: as it prints it; undefined or unreadable: none is known. */
export function maskReasons(version: string | undefined, where: 'here' | 'there'): Mismatch[] {
  const crun = parseVersion(version ?? '');
  if (crun === undefined || !isOlder(crun, unmaskingCrun)) return [];
  return [
    {
      code: 'E_HOST',
      message: `crun: ${crun.text} ${where} cannot restore masked folders of crun ${unmaskingCrun} or later`,
      hint: `install crun ${unmaskingCrun} or later ${where}`,
    },
  ];
}
