/** The cgroup of a task, for what must end although containerd does not answer. */

import { promises } from 'node:fs';
import { basename, join } from 'node:path';
import * as v from 'valibot';
import type { TaskName } from '../criu/task-link.js';
import { isMissing } from '../errors.js';
import { readTextIfAny } from '../os/files.js';
import { bundles } from './shim-call.js';

const top = 'sys/fs/cgroup';

const bundleSchema = v.object({
  linux: v.object({ cgroupsPath: v.pipe(v.string(), v.maxLength(4095), v.regex(/^[^\0]+$/)) }),
});

/**
 * Kills all processes of the task by the kernel, also those of a restore that has not ended. Without effect where there
 * is no such cgroup, and with cgroup v1. Throws Node's error.
 */
export async function killTask(task: TaskName, root: string): Promise<void> {
  for (const path of await cgroupsOf(task, root)) {
    // cgroup.kill: Linux 5.14, cgroup v2.
    await promises
      .writeFile(join(root, top, path, 'cgroup.kill'), '1', { flag: 'r+' })
      .catch((error: unknown) => {
        if (!isMissing(error)) throw error;
      });
  }
}

/** Where runc has put it, and where ctr does without a word of the container's spec. */
async function cgroupsOf({ namespace, id }: TaskName, root: string): Promise<Set<string>> {
  const config = join(root, bundles, namespace, id, 'config.json');
  const usual = join('/', namespace, id);
  try {
    const { linux } = v.parse(bundleSchema, JSON.parse((await readTextIfAny(config)) ?? ''));
    const own = pathOf(linux.cgroupsPath, id);
    return new Set([usual, ...(own === undefined ? [] : [own])]);
  } catch {
    return new Set([usual]);
  }
}

/**
 * A path, or SLICE:PREFIX:NAME where systemd makes it: then each dash of the slice is a level (opencontainers/cgroups:
 * systemd/common.go, ExpandSlice). undefined: others may be in that cgroup, too.
 */
function pathOf(name: string, id: string): string | undefined {
  const [slice = '', prefix, unit] = name.split(':');
  if (prefix === undefined || unit === undefined)
    return basename(name) === id ? join('/', name) : undefined;
  const parts = (slice || 'system.slice').replace(/\.slice$/, '').split('-');
  const levels = parts.map((_, at) => `${parts.slice(0, at + 1).join('-')}.slice`);
  return unit === id ? join('/', ...levels, `${prefix}-${unit}.scope`) : undefined;
}
