/** An unpacked checkpoint on disk. */

import { createReadStream } from 'node:fs';
import { lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { isMissing, KfdError } from '../errors.js';
import { imageFilePattern, manifestName } from '../manifest/names.js';
import { imagePrefix, rootfsDiff, smallFiles } from './names.js';
import type { DirectoryKind, Visit, WalkResult } from './walk.js';

/** `walkCheckpoint` for a directory. Links and special files are ignored. */
export async function walkDirectory(path: string, visit: Visit): Promise<WalkResult> {
  const kind = await kindOf(path);
  const ignored: string[] = [];
  const one = async (file: string, name: string): Promise<void> => {
    const found = await lstat(file);
    if (found.isDirectory()) return;
    if (!found.isFile()) {
      if (ignored.length < 20) ignored.push(name);
      return;
    }
    const place = { path: file, offset: 0, size: found.size };
    await visit({ name, size: found.size, place }, contentOf(file));
  };
  if (kind === 'bundle') {
    for (const name of [smallFiles.config, smallFiles.spec, rootfsDiff]) {
      await one(join(path, name), name).catch((error: unknown) => {
        if (!isMissing(error)) throw error;
      });
    }
  }
  const images = kind === 'bundle' ? join(path, imagePrefix) : path;
  for (const name of (await readdir(images)).sort()) {
    await one(join(images, name), imagePrefix + name);
  }
  return { kind, compression: undefined, ignored };
}

async function kindOf(path: string): Promise<DirectoryKind> {
  const names = await readdir(path);
  const isOurs = (name: string) => name === manifestName || imageFilePattern.test(name);
  if (names.includes('inventory.img') || names.some(isOurs)) return 'image';
  if (names.includes('checkpoint')) {
    if ((await lstat(join(path, 'checkpoint'))).isDirectory()) return 'bundle';
  }
  throw new KfdError('E_IMAGE_CORRUPT', `${path}: neither an image directory nor a bundle`, {
    hint: 'name a directory with inventory.img in it, or one with such a directory called checkpoint',
  });
}

/** Opened on the first read. */
async function* contentOf(file: string): AsyncGenerator<Buffer> {
  yield* createReadStream(file, { highWaterMark: 1 << 20 }) as AsyncIterable<Buffer>;
}
