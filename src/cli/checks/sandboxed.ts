/** Engines and tools that come as a snap or by Flatpak. Nobody has tried a checkpoint with one. */

import { lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { servicePath } from '../../runtime/service-path.js';
import { type Check, type CheckContext, type Finding, fail, warn } from './finding.js';

/** Programs that `check` looks for in PATH: a snap of them may be what it finds. */
const tools = ['podman', 'containerd', 'criu', 'crun', 'runc'] as const;
/** Snaps with an engine of their own, which does not read the configuration below /etc. */
const ownEngines = ['docker', 'k8s', 'microk8s', 'nerdctl'];
const flatpakFolder = 'var/lib/flatpak/exports/bin';

export const sandboxed: Check = async (context) => {
  const found = await Promise.all([snapTools(context), snapEngines(context), flatpaks(context)]);
  return found.flat();
};

async function snapTools({ root, mend }: CheckContext): Promise<Finding[]> {
  const found = tools.map(async (tool): Promise<Finding[]> => {
    if (!(await isThere(root, 'snap/bin', tool))) return [];
    const others = await Promise.all(servicePath.map((folder) => isThere(root, folder, tool)));
    const remove = `run "snap remove ${tool}"`;
    if (others.includes(true)) {
      const message = `${tool}: also a snap, which runs where /snap/bin comes first in PATH`;
      return [warn('snap', message, remove)];
    }
    const message = `${tool}: a snap, which does not use the host's CRIU and its configuration`;
    return [fail('snap', message, `${remove}; ${mend.install(tool, `the distribution's`)}`)];
  });
  return (await Promise.all(found)).flat();
}

async function snapEngines({ root, mend }: CheckContext): Promise<Finding[]> {
  const there = await Promise.all(ownEngines.map((one) => isThere(root, 'snap/bin', one)));
  return ownEngines
    .filter((_, at) => there[at])
    .map((engine) => {
      const message = `${engine}: a snap with an engine of its own, which kfd-checkpoint does not reach`;
      return warn('snap', message, mend.install('podman', 'for containers with a GPU, podman'));
    });
}

async function flatpaks({ root }: CheckContext): Promise<Finding[]> {
  if (await isThere(root, '', '.flatpak-info')) {
    const hint = 'run "flatpak-spawn --host sudo kfd-checkpoint check"';
    return [fail('flatpak', 'this command runs in a Flatpak sandbox, not on the host', hint)];
  }
  const names = await readdir(join(root, flatpakFolder)).catch(() => []);
  const engines = names.filter((one) => /podman/i.test(one));
  return engines.map((engine) => {
    const message = `${engine}: starts containers by rootless podman, which cannot checkpoint`;
    return warn('flatpak', message, 'start containers with a GPU by "sudo podman run"');
  });
}

async function isThere(root: string, folder: string, name: string): Promise<boolean> {
  return lstat(join(root, folder, name)).then(
    () => true,
    () => false,
  );
}
