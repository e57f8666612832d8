/** Further layers of a checkpoint image: each is a tar file with a store. */

import { KfdError } from '../errors.js';
import { storePattern } from '../manifest/names.js';
import { imagePrefix } from './names.js';
import { walkArchive } from './tar.js';
import { damaged } from './tar-bytes.js';
import type { Visit, WalkOptions, WalkResult } from './walk.js';

/** The name of a store in the image directory; undefined for any other entry of a layer. */
export function storeName(entry: string): string | undefined {
  const name = entry.startsWith(imagePrefix) ? entry.slice(imagePrefix.length) : '';
  return storePattern.test(name) ? name : undefined;
}

/**
 * Walks the archive at `path` by `first`, then the layers, whose files are as if they were in that archive. Throws
 * E_IMAGE_CORRUPT for anything but a store in a layer, and for one that is there twice; and as `walkArchive`.
 */
export async function walkLayers(
  path: string,
  options: WalkOptions,
  visit: Visit,
  first: (visit: Visit) => Promise<WalkResult>,
): Promise<WalkResult> {
  const { layers = [] } = options;
  if (layers.length === 0) return first(visit);
  const stores = new Set<string>();
  const all: Visit = async (entry, content) => {
    const name = storeName(entry.name);
    if (name !== undefined && stores.has(name)) throw corrupt(path, `${name} is there twice`);
    if (name !== undefined) stores.add(name);
    await visit(entry, content);
  };
  const result = await first(all);
  for (const layer of layers) {
    const { misplaced } = await walkArchive(layer, options, async (entry, content) => {
      if (storeName(entry.name) === undefined) throw corrupt(layer, `${entry.name} is no store`);
      await all(entry, content);
    });
    const [other] = misplaced;
    if (other !== undefined) throw corrupt(layer, `${other} is no store`);
  }
  return result;
}

const corrupt = (path: string, reason: string) =>
  new KfdError('E_IMAGE_CORRUPT', `${path}: ${reason}`, { hint: damaged });
