/** A checkpoint in place, in the engine's own bundle: what an archive would have, and giving it other contents. */

import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { readBounded, replaceFile } from '../os/files.js';
import { maxJsonBytes } from './contents.js';
import { imagePrefix, smallFiles } from './names.js';
import type { Replacements } from './relocate.js';

/** What the runtime reads at a restore in place: the OCI spec of the container as it was last started. */
const bundleSpec = 'config.json';

/** The spec of a bundle. Throws Node's error, E_IMAGE_CORRUPT when it is too large. */
export async function readBundleSpec(bundle: string): Promise<string> {
  return (await readBounded(join(bundle, bundleSpec), maxJsonBytes)).toString('utf8');
}

/**
 * Gives a bundle the contents an archive would get. The manifest comes last: until then it says the old numbers, and
 * what was interrupted can be done again. Podman's own configuration is in its database, and looks up
 * devices at the next start. Throws Node's error.
 */
export async function replaceInPlace(bundle: string, replacements: Replacements): Promise<void> {
  const isImage = ([name]: [string, Buffer]) => name.startsWith(imagePrefix);
  const isManifest = ([name]: [string, Buffer]) => name.endsWith('.json');
  const images = [...replacements].filter(isImage);
  const spec = replacements.get(smallFiles.spec);
  if (spec !== undefined) await replace(join(bundle, bundleSpec), spec);
  for (const one of [
    ...images.filter((image) => !isManifest(image)),
    ...images.filter(isManifest),
  ]) {
    await replace(join(bundle, one[0]), one[1]);
  }
}

async function replace(path: string, bytes: Buffer): Promise<void> {
  await replaceFile(path, bytes, (await stat(path)).mode & 0o777);
}
