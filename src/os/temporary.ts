/** Where large temporary files go. */

import { mkdtemp, rm } from 'node:fs/promises';
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
  const root = temporaryRoot(parent);
  let folder: string;
  try {
    folder = await mkdtemp(join(root, '.kfd-checkpoint-'));
  } catch (error) {
    throw asKfdError(error, root);
  }
  try {
    return await work(folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
