/** An image directory with the device numbers of this host. It needs no archive, and no documents of an engine. */

import { lstat, mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Placement } from '../gpu/compare.js';
import type { Host } from '../gpu/host.js';
import { manifestName } from '../manifest/names.js';
import type { Manifest } from '../manifest/schema.js';
import { readBounded, replaceFile, syncFolder } from '../os/files.js';
import { tmpfsImagePattern } from './device-nodes.js';
import { linkAll } from './in-place-image.js';
import { imagePrefix } from './names.js';
import { limits, type Replacements, relocateImage, tmpfsCollector } from './relocate.js';

/**
 * Gives `directory` the numbers of this host. The manifest is written last: an interrupted change can be repeated.
 * Throws as `relocateImage`, and Node's error.
 */
export async function moveImage(
  directory: string,
  manifest: Manifest,
  placement: Placement,
  host: Host,
): Promise<void> {
  for (const [name, bytes] of await changed(directory, manifest, placement, host)) {
    await replaceFile(join(directory, name), bytes, 0o600);
  }
}

/** Names in an image directory that are copies of it. */
export const copyPrefix = '.moved-';

/**
 * Makes `copy`, beside `directory` or in it, with `copyPrefix`: what changes is new, all else are links to the same
 * files. One that is there goes. Throws as `relocateImage`, and Node's error; then there is no copy.
 */
export async function copyMovedImage(
  directory: string,
  copy: string,
  manifest: Manifest,
  placement: Placement,
  host: Host,
): Promise<void> {
  const files = await changed(directory, manifest, placement, host);
  await rm(copy, { recursive: true, force: true });
  try {
    await mkdir(copy, { mode: 0o700 });
    await linkAll(directory, copy, (name) => files.has(name) || name.startsWith(copyPrefix));
    for (const [name, bytes] of files) {
      await writeFile(join(copy, name), bytes, { flag: 'wx', mode: 0o600 });
    }
    await syncFolder(copy);
  } catch (error) {
    await rm(copy, { recursive: true, force: true });
    throw error;
  }
}

/** By names in the directory, the manifest last. */
async function changed(
  directory: string,
  manifest: Manifest,
  placement: Placement,
  host: Host,
): Promise<Replacements> {
  const tmpfs = await tmpfsImages(directory);
  const found = await relocateImage({ manifest, tmpfs }, placement, host);
  const files = [...found].map(([name, bytes]) => [name.slice(imagePrefix.length), bytes] as const);
  const isManifest = ([name]: readonly [string, Buffer]) => name === manifestName;
  return new Map([...files.filter((one) => !isManifest(one)), ...files.filter(isManifest)]);
}

/** Images of tmpfs mounts with device nodes, by their names in an archive. */
async function tmpfsImages(directory: string): Promise<ReadonlyMap<string, Buffer>> {
  const images = new Map<string, Buffer>();
  const collect = tmpfsCollector(images);
  for (const name of (await readdir(directory)).filter((one) => tmpfsImagePattern.test(one))) {
    const bytes = await boundedIfSmall(join(directory, name));
    if (bytes === undefined) continue;
    const entry = { name: imagePrefix + name, size: bytes.length };
    await collect(
      entry,
      (async function* () {
        yield bytes;
      })(),
    );
  }
  return images;
}

/** undefined: larger than any image of /dev, or no file of its own. */
async function boundedIfSmall(path: string): Promise<Buffer | undefined> {
  const found = await lstat(path);
  if (!found.isFile() || found.size > limits.packed) return undefined;
  return readBounded(path, limits.packed, 'E_IMAGE_CORRUPT');
}
