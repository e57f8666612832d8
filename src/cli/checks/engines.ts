/** Which container engines were set up. Only their parts are checked. */

import { defaultConfPath, hasOurMarks } from '../../criu/default-conf.js';
import {
  containerdConfigPath,
  dropInPath,
  parseContainerdConfig,
  startsOurShim,
} from '../../runtime/containerd-config.js';
import { hookFilePath } from '../../runtime/hook-file.js';
import { type Roots, readUtf8 } from '../roots.js';
import { type Check, type Engines, fail, ok } from './finding.js';

/** Never throws: a file that cannot be read belongs to an engine, whose checks give the reason. */
export async function enginesOf(roots: Roots): Promise<Engines> {
  const isThere = (path: string, isOurs: (text: string) => boolean) =>
    readUtf8(roots, path).then(
      (text) => text !== undefined && isOurs(text),
      () => true,
    );
  const any = () => true;
  const [marks, hook, dropIn, ownFile] = await Promise.all([
    isThere(defaultConfPath, hasOurMarks),
    isThere(hookFilePath, any),
    isThere(dropInPath, any),
    isThere(containerdConfigPath, (text) => hasOurRuntime(text, roots.prefix)),
  ]);
  return { podman: marks || hook, containerd: dropIn || ownFile };
}

function hasOurRuntime(text: string, prefix: string): boolean {
  try {
    return parseContainerdConfig(text).runtimes.some((one) => startsOurShim(one, prefix));
  } catch {
    return false; // a damaged file of a host that may not use our shim
  }
}

export const engines: Check = async ({ engines: { podman, containerd } }) => {
  const names = [...(podman ? ['podman'] : []), ...(containerd ? ['containerd'] : [])];
  if (names.length > 0) return [ok('engines', names.join(', '))];
  const hint =
    'run "kfd-checkpoint configure" for podman, or "kfd-checkpoint configure containerd"';
  return [fail('engines', 'no container engine is set up', hint)];
};
