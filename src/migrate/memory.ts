/** Memory of the target for what arrives: a tmpfs of its own, bounded, which nobody but root can enter. */

import { mkdir, readdir, rm, rmdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { isMissing, KfdError } from '../errors.js';
import type { Run, RunResult } from '../os/exec.js';

/** tmpfs(5): pages that the mount holds at most. 0 would be no limit. */
const optionsFor = (bytes: number) =>
  `size=${Math.max(1, Math.ceil(bytes))},mode=0700,nosuid,nodev,noexec`;

/** Mounts one of `bytes` at a new folder. Throws E_HOST, Node's error. */
export async function holdMemory(folder: string, bytes: number, run: Run): Promise<void> {
  await mkdir(dirname(folder), { recursive: true, mode: 0o700 });
  await mkdir(folder, { mode: 0o700 });
  const args = ['-t', 'tmpfs', '-o', optionsFor(bytes), 'kfd-checkpoint', folder];
  const done = await run('mount', args);
  if (done?.status === 0) return;
  throw new KfdError('E_HOST', `${folder}: no tmpfs can be mounted there: ${reasonOf(done)}`, {
    hint: 'name a folder with --store',
  });
}

/**
 * Gives the memory back. Without effect where there is none. The files go before the mount: whoever has a view of it,
 * such as a service with mounts of its own, holds an empty one. Throws E_HOST, Node's error.
 */
export async function releaseMemory(folder: string, run: Run): Promise<void> {
  for (const name of await readdir(folder).catch(noneIfMissing))
    await rm(join(folder, name), { recursive: true, force: true });
  let said: RunResult | undefined;
  for (const options of [[], ['-l']]) {
    if (await isRemoved(folder)) return;
    said = await run('umount', [...options, folder]);
  }
  if (await isRemoved(folder)) return;
  throw new KfdError('E_HOST', `${folder}: cannot be unmounted: ${reasonOf(said)}`, {
    hint: `run "umount ${folder}"`,
  });
}

/** False for a folder on which something is mounted. */
async function isRemoved(folder: string): Promise<boolean> {
  try {
    await rmdir(folder);
    return true;
  } catch (error) {
    if (isMissing(error)) return true;
    if ((error as NodeJS.ErrnoException).code === 'EBUSY') return false;
    throw error;
  }
}

function noneIfMissing(error: unknown): string[] {
  if (isMissing(error)) return [];
  throw error;
}

function reasonOf(result: RunResult | undefined): string {
  if (result === undefined) return 'no such program';
  return result.stderr.trimEnd().split('\n').at(-1) || `status ${result.status}`;
}
