/**
 * Folders of GPU contents on either host, in one folder for each migration: those of the checkpoint, and those that
 * were sent ahead. The checkpoint leaves out what the round before it has.
 */

import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { isMissing } from '../errors.js';
import type { ListPages } from '../manifest/ancestors.js';

/** Of the checkpoint from which the container is restored. */
export const lastFolder = (folder: string) => join(folder, 'contents');

/** Of a round before it, from 0 on. */
export const roundFolder = (folder: string, round: number) => join(folder, `before.${round}`);

/** The most rounds. A restore takes the folders of 64 ancestors (src/criu/contents-request.ts). */
export const maxRounds = 16;

/** Options of `restore`: as `contentsFolders`. */
export function contentsOptions(folder: string, list: ListPages): string[] {
  return contentsFolders(folder, list).flatMap((one) => ['--contents', one]);
}

/**
 * The folders that a restore needs, in its order. None where the checkpoint has no folder: its session has not been
 * asked for one, and all contents are in the image. Throws as `list`.
 */
export function contentsFolders(folder: string, list: ListPages): string[] {
  const last = lastFolder(folder);
  const own = pagesIn(last, list);
  if (own.length === 0) return [];
  const found = [last];
  let wanted = parentsOf(own);
  for (let round = maxRounds - 1; round >= 0 && wanted.size > 0; round -= 1) {
    const one = roundFolder(folder, round);
    const files = pagesIn(one, list).filter(({ root }) => wanted.has(root));
    if (files.length === 0) continue;
    found.push(one);
    wanted = parentsOf(files);
  }
  return found;
}

type Pages = ReturnType<ListPages>;

const parentsOf = (files: readonly Pages[]) =>
  new Set(files.flatMap(({ parent }) => (parent === undefined ? [] : [parent])));

function pagesIn(folder: string, list: ListPages): Pages[] {
  return namesIn(folder).map((name) => list(join(folder, name)));
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
}

/** Bytes of all files below a folder; 0 where there is none. Throws Node's error. */
export function bytesBelow(folder: string): number {
  try {
    const names = readdirSync(folder, { recursive: true, encoding: 'utf8' });
    const sizeOf = (name: string) => {
      const found = statSync(join(folder, name), { throwIfNoEntry: false });
      return found?.isFile() === true ? found.size : 0;
    };
    return names.reduce((sum, name) => sum + sizeOf(name), 0);
  } catch (error) {
    if (isMissing(error)) return 0;
    throw error;
  }
}
