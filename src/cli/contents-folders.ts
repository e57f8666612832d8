/** Folders of GPU contents on the command line. */

import { realpath } from 'node:fs/promises';
import { Option } from 'commander';
import { asKfdError, isMissing, KfdError } from '../errors.js';
import type { Mismatch } from '../gpu/mismatch.js';
import { findAncestors, type ListPages } from '../manifest/ancestors.js';
import { foldersFor, isDetached } from '../manifest/elsewhere.js';
import type { Manifest } from '../manifest/schema.js';
import { openOwnFolder } from '../os/own-folder.js';

/** Collects all `--contents` options: the folder of a checkpoint, then those of its ancestors. */
export const contentsOption = () =>
  new Option(
    '--contents <dir>',
    'folder of its GPU contents; repeat the option for the folder of each ancestor',
  ).argParser((folder: string, before: readonly string[] | undefined) => [
    ...(before ?? []),
    folder,
  ]);

/**
 * The real paths of folders. A session takes each as it is. Throws E_NOT_FOUND; E_IO for a folder that others may
 * change.
 */
export function realFolders(names: readonly string[]): Promise<string[]> {
  return Promise.all(names.map(realFolder));
}

async function realFolder(name: string): Promise<string> {
  let path: string;
  try {
    path = await realpath(name);
  } catch (error) {
    if (!isMissing(error)) throw asKfdError(error, name);
    throw new KfdError('E_NOT_FOUND', `${name}: no such folder`, { cause: error });
  }
  const folder = await openOwnFolder(path);
  await folder.close();
  return path;
}

/**
 * What is wrong with the folders of ancestors, as a reason against a restore. Throws E_USAGE for a folder that the
 * checkpoint does not need.
 */
export async function ancestorProblems(
  manifest: Manifest,
  folders: readonly string[],
  list: ListPages,
): Promise<Mismatch[]> {
  const { parents } = foldersFor(manifest, folders);
  const [first] = folders;
  if (first !== undefined && !isDetached(manifest) && manifest.parent === null) {
    throw new KfdError('E_USAGE', `${first}: the checkpoint holds all of its contents itself`, {
      hint: 'leave out --contents',
    });
  }
  if (parents.length === 0) return [];
  const named = parents.map((path) => ({ path, name: path }));
  try {
    await findAncestors(manifest.parent, named, list);
    return [];
  } catch (error) {
    if (!(error instanceof KfdError) || error.code !== 'E_IMAGE_MISSING') throw error;
    return [{ code: error.code, message: error.message, hint: error.hint ?? '' }];
  }
}
