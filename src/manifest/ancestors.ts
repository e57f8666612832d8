/** The pages files of the ancestors of an image, found in folders by their roots. */

import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { KfdError } from '../errors.js';
import { pagesPattern } from './names.js';
import type { ManifestParent } from './schema.js';

/** A folder with the contents of one ancestor. */
export interface AncestorFolder {
  readonly path: string;
  /** For messages. */
  readonly name: string;
}

/** The roots of a pages file and of its parent, if it has one. Throws for a file that is not sound. */
export type ListPages = (path: string) => { readonly root: string; readonly parent?: string };

/**
 * Paths of the parent of each pages file with a parent, its parent and so on, by the name of the file. `folders`: of
 * the parent, the parent's parent and so on. Throws E_IMAGE_MISSING when one lacks a file, E_USAGE for a folder that
 * nobody needs, and Node's error.
 */
export async function findAncestors(
  parent: ManifestParent | null,
  folders: readonly AncestorFolder[],
  list: ListPages,
): Promise<Map<string, string[]>> {
  const levels = await Promise.all(folders.map(({ path }) => filesByRoot(path, list)));
  const paths = new Map(
    (parent?.files ?? []).map(({ name, root }) => [name, pathsOf(name, root, levels, folders)]),
  );
  const needed = Math.max(0, ...[...paths.values()].map((found) => found.length));
  const extra = folders[needed];
  if (extra === undefined) return paths;
  throw new KfdError('E_USAGE', `${extra.name}: no contents of the checkpoint are there`, {
    hint: 'name the folder of its own contents, then those of its ancestors',
  });
}

interface Found {
  readonly path: string;
  readonly parent: string | undefined;
}

type Level = ReadonlyMap<string, Found>;

/** Files that are not sound are left out: one that is needed is reported as missing, by its root. */
async function filesByRoot(folder: string, list: ListPages): Promise<Level> {
  const found = new Map<string, Found>();
  for (const name of (await readdir(folder)).filter((one) => pagesPattern.test(one))) {
    const path = join(folder, name);
    try {
      const { root, parent } = list(path);
      found.set(root, { path, parent });
    } catch {}
  }
  return found;
}

function pathsOf(
  name: string,
  first: string,
  levels: readonly Level[],
  folders: readonly AncestorFolder[],
): string[] {
  const paths: string[] = [];
  for (let root: string | undefined = first; root !== undefined; ) {
    const folder = folders[paths.length];
    const file: Found | undefined = levels[paths.length]?.get(root);
    if (file === undefined) {
      const where = folder === undefined ? 'no folder is named for it' : `not in ${folder.name}`;
      throw new KfdError('E_IMAGE_MISSING', `${name}: its parent ${root}: ${where}`, {
        hint: 'name the folders of all ancestors with --contents, the nearest one first',
      });
    }
    paths.push(file.path);
    root = file.parent;
  }
  return paths;
}
