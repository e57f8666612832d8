/** Check of CRI-O, where it is. */

import { asKfdError } from '../../errors.js';
import { crioConfigPath, crioFolder } from '../../runtime/crio-config.js';
import { askVersion } from '../../runtime/versions.js';
import { hasCrio, readCrio } from '../crio.js';
import { type Check, ok, warn } from './finding.js';

const name = 'cri-o';

export const crio: Check = async ({ root, prefix, run }) => {
  const version = await askVersion(run, 'crio');
  if (typeof version === 'string') {
    if (!(await hasCrio({ root }))) return [];
    const hint = `add its folder to PATH; if CRI-O is gone, remove ${crioFolder}: podman gets no hook beside it`;
    return [warn(name, `CRI-O is there, crio is ${version}`, hint)];
  }
  try {
    // Without a setting the default depends on the release.
    const off = (await readCrio({ root, prefix })).checkpoints === false;
    return off
      ? [warn(name, `${version.text}: its checkpoints are switched off`, switchOn)]
      : [ok(name, version.text)];
  } catch (error) {
    const known = asKfdError(error, name);
    return [warn(name, known.message, known.hint ?? switchOn)];
  }
};

const switchOn =
  `set container_level_enabled = "checkpoint_restore" in the table crio.checkpoint_restore of ${crioConfigPath}; ` +
  'releases before that had enable_criu_support in crio.runtime';
