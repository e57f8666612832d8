/** An unpacked checkpoint on disk. */

import { join } from 'node:path';
import { isMissing, KfdError } from '../errors.js';
import { imageFilePattern, manifestName, pagesPattern } from '../manifest/names.js';
import { Folder } from '../os/folder.js';
import { imagePrefix, isOfCheckpoint, isOurFile, rootfsDiff, smallFiles } from './names.js';
import { FileBytes } from './tar-bytes.js';
import type { DirectoryKind, Visit, WalkOptions, WalkResult } from './walk.js';

/** Far more than in any real image: bounds for hostile ones. */
const limits = { files: 65_536, misplaced: 20 } as const;

/** `walkCheckpoint` for a directory. No link below it is followed. */
export async function walkDirectory(
  path: string,
  options: WalkOptions,
  visit: Visit,
): Promise<WalkResult> {
  const top = await Folder.open(path);
  try {
    const kind = await kindOf(top, path);
    const misplaced: string[] = [];
    const all = async (folder: Folder, at: string, prefix: string, names: readonly string[]) => {
      for (const name of names) {
        const place = { folder, path: join(at, name), prefix, name };
        const isSound = await one(place, options, visit);
        if (!isSound && misplaced.length < limits.misplaced) misplaced.push(prefix + name);
      }
    };
    if (kind === 'image') {
      await all(top, path, imagePrefix, await namesIn(top, path));
    } else {
      const present = new Set(await namesIn(top, path));
      const known = [smallFiles.config, smallFiles.spec, rootfsDiff];
      await all(
        top,
        path,
        '',
        known.filter((name) => present.has(name)),
      );
      const images = await top.folder('checkpoint');
      const at = join(path, 'checkpoint');
      try {
        await all(images, at, imagePrefix, await namesIn(images, at));
      } finally {
        await images.close();
      }
    }
    return { kind, compression: undefined, misplaced };
  } finally {
    await top.close();
  }
}

/**
 * Visits the pages files in a folder of contents, as if they were in the image directory. Returns the names of links,
 * special files and folders that are called like one. Throws E_NOT_FOUND, and as `walkCheckpoint`.
 */
export async function walkContents(
  path: string,
  options: WalkOptions,
  visit: Visit,
): Promise<string[]> {
  const folder = await Folder.open(path).catch((error: unknown) => {
    if (!isMissing(error)) throw error;
    throw new KfdError('E_NOT_FOUND', `${path}: no such folder`, { cause: error });
  });
  try {
    const misplaced: string[] = [];
    for (const name of await namesIn(folder, path)) {
      if (!pagesPattern.test(name)) continue;
      const place = { folder, path: join(path, name), prefix: imagePrefix, name };
      if (!(await one(place, options, visit))) misplaced.push(imagePrefix + name);
    }
    return misplaced.slice(0, limits.misplaced);
  } finally {
    await folder.close();
  }
}

interface Place {
  readonly folder: Folder;
  readonly path: string;
  /** Of its name in an archive. */
  readonly prefix: string;
  readonly name: string;
}

/** False for a name that is no regular file where one belongs. */
async function one(
  { folder, path, prefix, name }: Place,
  options: WalkOptions,
  visit: Visit,
): Promise<boolean> {
  const found = await folder.kindOf(name);
  const plain = prefix + name;
  if (found !== 'file') return !(found === 'folder' ? isOurFile(plain) : isOfCheckpoint(plain));
  const file = await folder.file(name, 'E_IMAGE_CORRUPT');
  try {
    const { size } = await file.stat();
    const content = new FileBytes(path, file, size, options).content(size);
    await visit({ name: plain, size, place: { path, offset: 0, size } }, content);
    return true;
  } finally {
    await file.close();
  }
}

async function namesIn(folder: Folder, path: string): Promise<string[]> {
  const names = await folder.names();
  if (names.length <= limits.files) return names;
  throw new KfdError('E_IMAGE_CORRUPT', `${path}: more files than any checkpoint has`);
}

async function kindOf(folder: Folder, path: string): Promise<DirectoryKind> {
  const names = await namesIn(folder, path);
  const isOurs = (name: string) => name === manifestName || imageFilePattern.test(name);
  if (names.includes('inventory.img') || names.some(isOurs)) return 'image';
  if (names.includes('checkpoint') && (await folder.kindOf('checkpoint')) === 'folder') {
    return 'bundle';
  }
  throw new KfdError('E_IMAGE_CORRUPT', `${path}: neither an image directory nor a bundle`, {
    hint: 'name a directory with inventory.img in it, or one with such a directory called checkpoint',
  });
}
