/** Where the contents of an image are: its pages files, and those of its ancestors. */

import type { PagesListing } from '../../addon/images.js';
import { KfdError } from '../../errors.js';
import { type AncestorFolder, findAncestors } from '../../manifest/ancestors.js';
import type { ManifestParent } from '../../manifest/schema.js';
import { fromNative, native } from '../../native.js';

/** A pages file of the image, and what its header says. */
export interface OwnPages {
  readonly name: string;
  readonly path: string;
  readonly summary: Pick<PagesListing, 'parent'>;
}

/** Paths of a pages file and of its ancestors. */
export type PagesPaths = readonly [own: string, ...parents: string[]];

/**
 * The paths for uploads, by the names of the files. All references to ancestors lead to a stored frame. Throws as
 * `findAncestors`, and E_IMAGE_CORRUPT.
 */
export async function pathsOfPages(
  files: readonly OwnPages[],
  parent: ManifestParent | null,
  folders: readonly AncestorFolder[],
): Promise<Map<string, PagesPaths>> {
  const recorded = new Map(parent?.files.map(({ name, root }) => [name, root]));
  const ancestors = await findAncestors(parent, folders, (path) => native().listPages(path));
  const paths = new Map<string, PagesPaths>();
  for (const { name, path, summary } of files) {
    if (summary.parent !== recorded.get(name)) {
      throw new KfdError('E_IMAGE_CORRUPT', `${name}: has another parent than the manifest says`, {
        hint: 'the image was damaged or changed after the checkpoint; use another copy',
      });
    }
    const all: PagesPaths = [path, ...(ancestors.get(name) ?? [])];
    if (all.length > 1) checkChain(name, all);
    paths.set(name, all);
  }
  return paths;
}

function checkChain(name: string, paths: PagesPaths): void {
  try {
    native().checkChain(paths);
  } catch (error) {
    throw fromNative(error, name);
  }
}
