/** Check of CRI-O, where it is: its archives are read, and nobody has tried more. */

import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { asKfdError } from '../../errors.js';
import {
  crioCheckpoints,
  crioConfigPath,
  crioDropInFolder,
  crioFolder,
} from '../../runtime/crio-config.js';
import { askVersion } from '../../runtime/versions.js';
import { type Roots, readUtf8 } from '../roots.js';
import { type Check, warn } from './finding.js';

const name = 'cri-o';

export const crio: Check = async ({ root, prefix, run }) => {
  const version = await askVersion(run, 'crio');
  const isThere = typeof version !== 'string';
  if (!isThere && (await namesIn(join(root, crioFolder))).length === 0) return [];
  const subject = isThere ? version.text : `${crioFolder} is there, crio is ${version}`;
  const use = 'for containers with a GPU run "kfd-checkpoint configure" and use podman';
  try {
    const off = (await areOn({ root, prefix })) === false;
    const tried = 'kfd-checkpoint reads its archives; its containers with a GPU were never tried';
    const switched = off ? '; its checkpoints are switched off' : '';
    return [warn(name, `${subject}: ${tried}${switched}`, use)];
  } catch (error) {
    const known = asKfdError(error, name);
    return [warn(name, known.message, known.hint ?? use)];
  }
};

/** Whether checkpoints are on; undefined: no file says so, and the default depends on the release. Throws E_CONFIG. */
async function areOn(roots: Roots): Promise<boolean | undefined> {
  const dropIns = (await namesIn(join(roots.root, crioDropInFolder)))
    .filter((file) => file.endsWith('.conf'))
    .sort()
    .map((file) => `${crioDropInFolder}/${file}`);
  let last: boolean | undefined;
  for (const path of [crioConfigPath, ...dropIns]) {
    const text = await readUtf8(roots, path);
    if (text !== undefined) last = crioCheckpoints(path, text) ?? last;
  }
  return last;
}

async function namesIn(folder: string): Promise<string[]> {
  return readdir(folder).catch(() => []);
}
