/** The shim that containerd of this host would start for a runtime. Reads, and changes nothing. */

import { constants, promises } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { readTextIfAny } from '../os/files.js';
import { servicePath } from '../runtime/service-path.js';

/** The file name of our shim, wherever links to it are. */
const ours = 'containerd-shim-kfd-v2';

/**
 * Whether containerd finds our shim for this runtime, by its name or its path. It looks in its PATH, then beside its
 * own program (runtime/v2/manager.go:resolveRuntimePath@1.7.24, pkg/shim/util.go:BinaryName). Throws Node's error.
 */
export async function findsOurShim(runtime: string, root: string): Promise<boolean> {
  if (runtime.startsWith('/')) return isOurs(join(root, runtime));
  const name = `containerd-shim-${runtime.split('.').slice(-2).join('-')}`;
  for (const folder of await shimFolders(root)) {
    const path = join(root, folder, name);
    // The first one is used, whosever it is.
    if (await isProgram(path)) return isOurs(path);
  }
  return false;
}

/** Of the daemon that runs. Where there is none, those of a service. */
async function shimFolders(root: string): Promise<string[]> {
  const entries = await promises.readdir(join(root, 'proc')).catch(() => []);
  const pids = entries.filter((name) => /^\d+$/.test(name));
  for (const pid of pids) {
    const own = join(root, 'proc', pid);
    // It may end meanwhile.
    const comm = await readTextIfAny(join(own, 'comm')).catch(() => undefined);
    if (comm !== 'containerd\n') continue;
    const environment = await readTextIfAny(join(own, 'environ')).catch(() => undefined);
    const path = /(?:^|\0)PATH=([^\0]*)/.exec(environment ?? '')?.[1];
    if (path === undefined) continue;
    const program = await promises.readlink(join(own, 'exe')).catch(() => undefined);
    return [...path.split(':'), ...(program === undefined ? [] : [dirname(program)])];
  }
  return servicePath.map((folder) => `/${folder}`);
}

async function isProgram(path: string): Promise<boolean> {
  return promises.access(path, constants.X_OK).then(
    () => true,
    () => false,
  );
}

/** A link that leads there, or a copy. */
async function isOurs(path: string): Promise<boolean> {
  if (basename(path) === ours) return isProgram(path);
  const to = await promises.readlink(path).catch(() => undefined);
  return to !== undefined && isOurs(resolve(dirname(path), to));
}
