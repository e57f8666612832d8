/** Where large temporary files go. */

import { randomUUID } from 'node:crypto';
import { constants, promises } from 'node:fs';
import { join } from 'node:path';
import { asKfdError } from '../errors.js';

/** $TMPDIR, or `beside` when it is not set or empty. */
export function temporaryRoot(beside: string): string {
  return process.env['TMPDIR'] || beside;
}

/**
 * Runs `work` with a temporary folder in $TMPDIR or `parent`, for files as large as the GPU contents. The
 * folder is removed in any case.
 */
export async function inWorkFolder<T>(
  parent: string,
  work: (folder: string) => Promise<T>,
): Promise<T> {
  return inFolderIn(temporaryRoot(parent), work);
}

/** The same in `root`: for files that are going to be moved into it. */
export async function inFolderIn<T>(
  root: string,
  work: (folder: string) => Promise<T>,
): Promise<T> {
  let folder: string;
  try {
    folder = await promises.mkdtemp(join(root, '.kfd-checkpoint-'));
  } catch (error) {
    throw asKfdError(error, root);
  }
  try {
    return await work(folder);
  } finally {
    await promises.rm(folder, { recursive: true, force: true });
  }
}

/** Opens a new file and takes its name away: no more than an empty file can be left of it. Throws Node's error. */
export async function unnamedFile(folder: string): Promise<promises.FileHandle> {
  const name = join(folder, `.kfd-checkpoint-${randomUUID()}.tmp`);
  const { O_RDWR, O_CREAT, O_EXCL, O_NOFOLLOW } = constants;
  const handle = await promises.open(name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600);
  try {
    await promises.unlink(name);
    return handle;
  } catch (error) {
    await handle.close();
    throw error;
  }
}
