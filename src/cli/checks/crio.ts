/** Check of CRI-O, where it is. */

import { asKfdError } from '../../errors.js';
import { crioFolder } from '../../runtime/crio-config.js';
import { askVersion } from '../../runtime/versions.js';
import { hasCrio, readCrio } from '../crio.js';
import { type Check, warn } from './finding.js';

const name = 'cri-o';

export const crio: Check = async ({ root, prefix, run }) => {
  const version = await askVersion(run, 'crio');
  const isThere = typeof version !== 'string';
  if (!isThere && !(await hasCrio({ root }))) return [];
  const subject = isThere ? version.text : `${crioFolder} is there, crio is ${version}`;
  const use = 'for containers with a GPU run "kfd-checkpoint configure" and use podman';
  try {
    // Without a setting the default depends on the release.
    const off = (await readCrio({ root, prefix })).checkpoints === false;
    const tried = 'kfd-checkpoint reads its archives; its containers with a GPU were never tried';
    const switched = off ? '; its checkpoints are switched off' : '';
    return [warn(name, `${subject}: ${tried}${switched}`, use)];
  } catch (error) {
    const known = asKfdError(error, name);
    return [warn(name, known.message, known.hint ?? use)];
  }
};
