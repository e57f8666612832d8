/** CRI-O of this host, where it is. */

import { access, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import {
  type CrioSettings,
  crioConfigPath,
  crioDropInFolder,
  crioFolder,
  crioSettings,
  readsPodmansHooks,
} from '../runtime/crio-config.js';
import { type Roots, readUtf8 } from './roots.js';

const programs = ['/usr/bin/crio', '/usr/local/bin/crio'];

/** By its program in the usual folders, or by a file of its configuration. */
export async function hasCrio({ root }: Pick<Roots, 'root'>): Promise<boolean> {
  for (const path of programs) {
    const found = await access(join(root, path)).then(
      () => true,
      () => false,
    );
    if (found) return true;
  }
  return (await namesIn(join(root, crioFolder))).length > 0;
}

/** The last file that says something decides. Throws E_CONFIG. */
export async function readCrio(roots: Roots): Promise<CrioSettings> {
  const dropIns = (await namesIn(join(roots.root, crioDropInFolder)))
    .filter((file) => file.endsWith('.conf'))
    .sort()
    .map((file) => `${crioDropInFolder}/${file}`);
  let last: CrioSettings = { checkpoints: undefined, hookFolders: undefined };
  for (const path of [crioConfigPath, ...dropIns]) {
    const text = await readUtf8(roots, path);
    if (text === undefined) continue;
    const { checkpoints, hookFolders } = crioSettings(path, text);
    last = {
      checkpoints: checkpoints ?? last.checkpoints,
      hookFolders: hookFolders ?? last.hookFolders,
    };
  }
  return last;
}

/** Whether CRI-O of this host does not start with podman's hook. Settings that cannot be read count as none. */
export async function hookStopsCrio(roots: Roots): Promise<boolean> {
  if (!(await hasCrio(roots))) return false;
  return readCrio(roots).then(readsPodmansHooks, () => true);
}

async function namesIn(folder: string): Promise<string[]> {
  return readdir(folder).catch(() => []);
}
