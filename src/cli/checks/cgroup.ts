/** Check of the cgroup tree. */

import { access, constants } from 'node:fs/promises';
import { join } from 'node:path';
import { type Check, fail, ok, warn } from './finding.js';

const folder = 'sys/fs/cgroup';

/** Whether cgroup v2 is all there is: in a hybrid tree it lies one folder below. */
export async function hasCgroup2(root: string): Promise<boolean> {
  return access(join(root, folder, 'cgroup.controllers')).then(
    () => true,
    () => false,
  );
}

export const cgroup: Check = async ({ root, mend }) => {
  if (!(await hasCgroup2(root))) {
    const hint = mend.bootWith('systemd.unified_cgroup_hierarchy=1');
    return [warn('cgroup', `no cgroup v2 at /${folder}`, hint)];
  }
  try {
    await access(join(root, folder), constants.W_OK);
    return [ok('cgroup', 'v2, writable')];
  } catch {
    const hint = 'run "sudo kfd-checkpoint check", outside a container';
    return [fail('cgroup', `/${folder}: not writable`, hint)];
  }
};
