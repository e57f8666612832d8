/** Who uses GPUs at this moment. */

import { readdir, readlink } from 'node:fs/promises';
import { join } from 'node:path';
import { readTextIfAny } from '../os/files.js';
import type { TestGpu } from './bench.js';

export interface GpuUser {
  readonly pid: number;
  /** The name of its program, which it chooses itself. */
  readonly comm: string;
  readonly by: 'kfd' | 'render node';
}

/**
 * Processes other than `self` that KFD knows, or that have a render node of `gpus` open. A KFD process can use every
 * GPU that it may open, so each one counts. Processes may come and go meanwhile. `root`: folder of /sys and /proc.
 */
export async function gpuUsers(
  root: string,
  gpus: readonly Pick<TestGpu, 'minor'>[],
  self: number,
): Promise<GpuUser[]> {
  const known = await numbers(join(root, 'sys/class/kfd/kfd/proc'));
  const nodes = new Set(gpus.map(({ minor }) => `/dev/dri/renderD${minor}`));
  const users: GpuUser[] = [];
  for (const pid of await numbers(join(root, 'proc'))) {
    if (pid === self || known.includes(pid)) continue;
    if (await hasOpen(join(root, `proc/${pid}/fd`), nodes)) {
      users.push({ pid, comm: await commOf(root, pid), by: 'render node' });
    }
  }
  for (const pid of known.filter((one) => one !== self)) {
    users.push({ pid, comm: await commOf(root, pid), by: 'kfd' });
  }
  return users.sort((a, b) => a.pid - b.pid);
}

async function numbers(folder: string): Promise<number[]> {
  const names = await readdir(folder).catch((): string[] => []);
  return names.filter((name) => /^\d+$/.test(name)).map(Number);
}

async function hasOpen(folder: string, nodes: ReadonlySet<string>): Promise<boolean> {
  for (const name of await readdir(folder).catch((): string[] => [])) {
    const target = await readlink(join(folder, name)).catch(() => '');
    if (nodes.has(target)) return true;
  }
  return false;
}

async function commOf(root: string, pid: number): Promise<string> {
  const text = await readTextIfAny(join(root, `proc/${pid}/comm`)).catch(() => undefined);
  return text?.trim() || 'unknown';
}
