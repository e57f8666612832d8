/** The cgroups that podman makes for a container. With cgroup v1, and below another parent, there are none here. */

import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { isMissing } from '../errors.js';

/** Of systemd, and of podman itself (libpod/define/config.go@5.8: DefaultCgroupParent). */
const parents = ['machine.slice', 'libpod_parent'];

/** Kills its processes, conmon's included. Throws Node's error. */
export async function killProcesses(id: string, root: string): Promise<void> {
  // cgroup.kill: Linux 5.14, cgroup v2.
  for (const folder of await cgroupsOf(id, root)) await write(join(folder, 'cgroup.kill'), '1');
}

/** Lets its processes go on, whoever has frozen them. Without effect on those that run. Throws Node's error. */
export async function thaw(id: string, root: string): Promise<void> {
  for (const folder of await cgroupsOf(id, root)) {
    for (const path of [folder, ...(await below(folder))])
      await write(join(path, 'cgroup.freeze'), '0');
  }
}

async function cgroupsOf(id: string, root: string): Promise<string[]> {
  const found = parents.map((parent) => below(join(root, 'sys/fs/cgroup', parent)));
  return (await Promise.all(found)).flat().filter((path) => path.includes(id));
}

async function below(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
  return entries.filter((one) => one.isDirectory()).map(({ name }) => join(folder, name));
}

/** To a file of a cgroup that is there: it may have gone. */
async function write(path: string, text: string): Promise<void> {
  await writeFile(path, text, { flag: 'r+' }).catch((error: unknown) => {
    if (!isMissing(error)) throw error;
  });
}
