/**
 * How `migrate` has our shim restore a task of containerd, whose clients cannot name an image directory for a container
 * that is there: a link in the run folder, for the next Create of this container.
 */

import { existsSync, mkdirSync, readlinkSync, rmdirSync, rmSync, symlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { runFolder } from './state-folder.js';

/** The namespace and the id of a container of containerd. */
export interface TaskName {
  readonly namespace: string;
  readonly id: string;
}

const linkOf = ({ namespace, id }: TaskName, run: string) => join(run, 'tasks', namespace, id);

/**
 * The image directory. undefined: nobody has named one, or it has gone with the command that was killed. Throws
 * nothing.
 */
export function linkedImage(task: TaskName, run = runFolder): string | undefined {
  try {
    const image = readlinkSync(linkOf(task, run));
    return existsSync(image) ? image : undefined;
  } catch {
    return undefined;
  }
}

/** Calls `work` while the shim finds `image`. Throws its error, and Node's. */
export async function withLinkedImage<T>(
  task: TaskName,
  image: string,
  work: () => Promise<T>,
  run = runFolder,
): Promise<T> {
  const link = linkOf(task, run);
  mkdirSync(dirname(link), { recursive: true, mode: 0o700 });
  // Of a command that was killed.
  rmSync(link, { force: true });
  symlinkSync(image, link);
  try {
    return await work();
  } finally {
    rmSync(link, { force: true });
    for (const folder of [dirname(link), dirname(dirname(link))]) removeIfEmpty(folder);
  }
}

function removeIfEmpty(folder: string): void {
  try {
    rmdirSync(folder);
  } catch {
    // Another command uses it.
  }
}
