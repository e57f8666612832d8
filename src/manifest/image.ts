/** The manifest in an image directory. */

import { lstat, readdir, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { isMissing, KfdError } from '../errors.js';
import { readBounded, replaceFile, syncFolder } from '../os/files.js';
import { decodeManifest, encodeManifest } from './codec.js';
import { imageFilePattern, manifestName, pagesPattern } from './names.js';
import { type Manifest, manifestLimits } from './schema.js';

/** Our files in an image directory. */
export type ImageState =
  /** No file of ours: a checkpoint without a GPU. */
  | { readonly state: 'none' }
  /** State or pages files, but no manifest: a checkpoint that was never finished. */
  | { readonly state: 'unsealed'; readonly files: readonly string[] }
  | { readonly state: 'sealed'; readonly manifest: Manifest };

/**
 * Looks into an image directory. Throws E_IMAGE_CORRUPT or E_IMAGE_VERSION for an unusable manifest, E_IMAGE_MISSING
 * when there is no such directory.
 */
export async function imageState(directory: string): Promise<ImageState> {
  let names: string[];
  try {
    names = await readdir(directory);
  } catch (error) {
    if (!isMissing(error)) throw error;
    throw new KfdError('E_IMAGE_MISSING', `${directory}: no such image directory`, {
      cause: error,
    });
  }
  if (names.includes(manifestName)) {
    return { state: 'sealed', manifest: await readManifest(directory) };
  }
  const files = names.filter((name) => imageFilePattern.test(name)).sort();
  return files.length === 0 ? { state: 'none' } : { state: 'unsealed', files };
}

/**
 * Reads the manifest of an image directory. A link is not followed. Throws the errors of `decodeManifest`, and
 * E_IMAGE_MISSING.
 */
export async function readManifest(directory: string): Promise<Manifest> {
  const path = join(directory, manifestName);
  try {
    if (!(await lstat(path)).isFile()) {
      throw new KfdError('E_IMAGE_CORRUPT', `${path}: not a regular file`);
    }
    const bytes = await readBounded(path, manifestLimits.fileBytes, 'E_IMAGE_CORRUPT');
    return decodeManifest(bytes, path);
  } catch (error) {
    if (!isMissing(error)) throw error;
    throw new KfdError('E_IMAGE_MISSING', `${path}: no such file`, { cause: error });
  }
}

/**
 * Seals an image: writes the manifest under a temporary name, syncs, renames. All files in the manifest must be
 * complete. Throws E_INTERNAL for an invalid document, E_IMAGE_MISSING when the directory is gone, else Node's error.
 */
export async function writeManifest(directory: string, manifest: Manifest): Promise<void> {
  const bytes = encodeManifest(manifest);
  await replaceFile(join(directory, manifestName), bytes, 0o600).catch((error: unknown) => {
    if (!isMissing(error)) throw error;
    // containerd does so when the kubelet's time limit has passed.
    throw new KfdError(
      'E_IMAGE_MISSING',
      'the image directory was removed before it was complete',
      {
        cause: error,
        hint: 'its caller has given up: give it more time',
      },
    );
  });
}

/**
 * Removes our files from an image directory. The manifest goes first: a partly removed image is unsealed. Other files
 * stay. Returns the removed names.
 */
export async function removeImageFiles(directory: string): Promise<string[]> {
  const names = await readdir(directory);
  const temporary = new RegExp(`^\\.${manifestName.replace('.', '\\.')}\\.\\d+\\.tmp$`);
  const ours = [
    ...names.filter((name) => name === manifestName),
    ...names.filter((name) => imageFilePattern.test(name) || temporary.test(name)).sort(),
  ];
  await removeFiles(directory, ours);
  return ours;
}

/** Whether a folder has pages files of any image. Throws Node's error. */
export async function hasPagesFiles(directory: string): Promise<boolean> {
  return (await readdir(directory)).some((name) => pagesPattern.test(name));
}

/** Removes all pages files from a folder of contents. Other files stay. Throws Node's error. */
export async function removePagesFiles(directory: string): Promise<void> {
  const names = await readdir(directory);
  await removeFiles(
    directory,
    names.filter((name) => pagesPattern.test(name)),
  );
}

async function removeFiles(directory: string, names: readonly string[]): Promise<void> {
  for (const name of names) {
    await unlink(join(directory, name)).catch((error: unknown) => {
      if (!isMissing(error)) throw error;
    });
  }
  if (names.length > 0) await syncFolder(directory);
}
