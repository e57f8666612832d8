/** Contents that are not in the image directory: in a folder of their own, or in a parent. */

import { detachedFeature, pagesPattern, parentFeature } from './names.js';
import type { Manifest, ManifestFile } from './schema.js';

type Features = Pick<Manifest, 'features'>;

/** Whether the pages files are in a folder of their own. */
export function isDetached({ features }: Features): boolean {
  return features.required.includes(detachedFeature);
}

/** Whether contents are needed that are not in the image. */
export function needsFolders(manifest: Features & Pick<Manifest, 'parent'>): boolean {
  return isDetached(manifest) || manifest.parent !== null;
}

export function pagesFilesOf({ files }: Pick<Manifest, 'files'>): ManifestFile[] {
  return files.filter(({ name }) => pagesPattern.test(name));
}

/** The digests by which the contents of an image are known, whatever was rewritten in its manifest. */
export function rootsOf(manifest: Pick<Manifest, 'files'>): string[] {
  return pagesFilesOf(manifest).map(({ digest }) => digest.hex);
}

/** Folders with contents, as somebody has named them for one image. */
export interface ContentsFolders<Folder> {
  /** Of the image's own pages files; undefined: they are in the image directory, or nobody has named one. */
  readonly own: Folder | undefined;
  /** Of the pages files of its parent, the parent's parent and so on. */
  readonly parents: readonly Folder[];
}

/** What the folders hold for an image: the first one is its own where its contents are detached. */
export function foldersFor<Folder>(
  manifest: Features,
  folders: readonly Folder[],
): ContentsFolders<Folder> {
  if (!isDetached(manifest)) return { own: undefined, parents: folders };
  return { own: folders[0], parents: folders.slice(1) };
}

/** The manifest without the requirements that the folders meet, for a comparison with a host. */
export function supplied(manifest: Manifest, { own, parents }: ContentsFolders<unknown>): Manifest {
  const met = (feature: string) =>
    (feature === detachedFeature && own !== undefined) ||
    (feature === parentFeature && parents.length > 0);
  const { features } = manifest;
  const required = features.required.filter((feature) => !met(feature));
  return { ...manifest, features: { ...features, required } };
}
