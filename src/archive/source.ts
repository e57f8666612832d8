/** A checkpoint to look into: an archive, a podman bundle, or an image directory. */

import { stat } from 'node:fs/promises';
import { isMissing, KfdError } from '../errors.js';
import { walkDirectory } from './directory.js';
import { walkLayers } from './layers.js';
import { walkArchive } from './tar.js';
import type { Visit, WalkOptions, WalkResult } from './walk.js';

/**
 * Walks all files of a checkpoint once, without unpacking. Throws E_NOT_FOUND, E_IMAGE_CORRUPT for a damaged, hostile
 * or foreign file, E_IO when reading fails, and the errors of `visit`.
 */
export async function walkCheckpoint(
  path: string,
  options: WalkOptions,
  visit: Visit,
): Promise<WalkResult> {
  let isDirectory: boolean;
  try {
    const found = await stat(path);
    isDirectory = found.isDirectory();
    if (!isDirectory && !found.isFile()) {
      throw new KfdError('E_IMAGE_CORRUPT', `${path}: neither a file nor a directory`);
    }
  } catch (error) {
    if (!isMissing(error)) throw error;
    throw new KfdError('E_NOT_FOUND', `${path}: no such file or directory`, { cause: error });
  }
  if (isDirectory) return walkDirectory(path, options, visit);
  return walkLayers(path, options, visit, (all) => walkArchive(path, options, all));
}
