/**
 * A checkpoint in place, in the container engine's own bundle: reading and changing the files that an archive would
 * have.
 */

import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { readBounded, replaceFile } from '../os/files.js';
import { maxJsonBytes } from './contents.js';
import { documentText } from './document.js';
import { imagePrefix, smallFiles } from './names.js';
import type { Replacements } from './relocate.js';

/** The OCI runtime reads this file at a restore in place: the OCI spec of the container's last start. */
const bundleSpec = 'config.json';

/** The spec of a bundle. Throws Node's error, and E_IMAGE_CORRUPT as `documentText` or when it is too large. */
export async function readBundleSpec(bundle: string): Promise<string> {
  const bytes = await readBounded(join(bundle, bundleSpec), maxJsonBytes, 'E_IMAGE_CORRUPT');
  return documentText(bundleSpec, bytes);
}

/**
 * Gives a bundle the contents that an archive would get. The manifest is written last: an interrupted change can be
 * repeated, because the manifest still has the old numbers. Podman's own configuration is in its database; podman looks
 * up devices at the next start. Throws Node's error.
 */
export async function replaceInPlace(bundle: string, replacements: Replacements): Promise<void> {
  const isImage = ([name]: [string, Buffer]) => name.startsWith(imagePrefix);
  const isManifest = ([name]: [string, Buffer]) => name.endsWith('.json');
  const images = [...replacements].filter(isImage);
  await replaceSpec(bundle, replacements);
  for (const one of [
    ...images.filter((image) => !isManifest(image)),
    ...images.filter(isManifest),
  ]) {
    await replace(join(bundle, one[0]), one[1]);
  }
}

/** Gives a bundle the spec among `replacements`, if there is one. Throws Node's error. */
export async function replaceSpec(bundle: string, replacements: Replacements): Promise<void> {
  const spec = replacements.get(smallFiles.spec);
  if (spec !== undefined) await replace(join(bundle, bundleSpec), spec);
}

async function replace(path: string, bytes: Buffer): Promise<void> {
  await replaceFile(path, bytes, (await stat(path)).mode & 0o777);
}
