/** Writes into an OCI image layout: blobs, images, and the list of images. */

import { createHash } from 'node:crypto';
import { createReadStream, promises } from 'node:fs';
import { join } from 'node:path';
import { isMissing, KfdError } from '../errors.js';
import { replaceFile, syncFolder } from '../os/files.js';
import { lockName } from './layout-lock.js';
import {
  blobName,
  type Descriptor,
  digestOf,
  indexBlob,
  type LayoutImage,
  layoutImages,
  tagAnnotation,
} from './oci-layout.js';

export const mediaTypes = {
  manifest: 'application/vnd.oci.image.manifest.v1+json',
  config: 'application/vnd.oci.image.config.v1+json',
  layer: 'application/vnd.oci.image.layer.v1.tar',
} as const;

const layoutBlob = 'oci-layout';

/** What a writer makes before the list of images, and leaves when it fails. */
const isBeginning = (name: string) =>
  name === layoutBlob || name === 'blobs' || name.startsWith('.kfd-checkpoint-');

/**
 * Makes the folder a layout where it is new, empty or begun, for its owner alone. Returns the images of the layout. For
 * its only writer. Throws E_USAGE for a folder with anything else, E_IMAGE_CORRUPT, Node's error.
 */
export async function openLayout(dir: string, shown: string): Promise<readonly LayoutImage[]> {
  await promises.mkdir(dir, { recursive: true, mode: 0o700 });
  const names = (await promises.readdir(dir)).filter((name) => name !== lockName);
  if (names.includes(indexBlob)) return layoutImages(dir, shown);
  if (!names.every(isBeginning)) {
    throw new KfdError('E_USAGE', `${shown}: is a folder with other files`, {
      hint: 'name a new folder, or the folder of an OCI image layout',
    });
  }
  await promises.mkdir(join(dir, 'blobs/sha256'), { recursive: true, mode: 0o700 });
  await replaceFile(join(dir, layoutBlob), '{"imageLayoutVersion":"1.0.0"}');
  return [];
}

/** A blob of these bytes. Throws Node's error. */
export async function putBytes(dir: string, mediaType: string, bytes: Buffer): Promise<Descriptor> {
  const digest = digestOf(bytes);
  await replaceFile(join(dir, blobName(digest)), bytes, 0o600);
  return { mediaType, digest, size: bytes.length };
}

/** Makes the file `path` of the same file system a blob. Throws Node's error. */
export async function putFile(dir: string, mediaType: string, path: string): Promise<Descriptor> {
  const hash = createHash('sha256');
  let size = 0;
  const chunks = createReadStream(path, { highWaterMark: 1 << 20 });
  for await (const chunk of chunks as AsyncIterable<Buffer>) {
    hash.update(chunk);
    size += chunk.length;
  }
  const digest = `sha256:${hash.digest('hex')}`;
  const file = await promises.open(path, 'r+');
  await file.sync().finally(() => file.close());
  await promises.rename(path, join(dir, blobName(digest)));
  await syncFolder(join(dir, 'blobs/sha256'));
  return { mediaType, digest, size };
}

/**
 * Puts the image `manifest` into the list, last, in place of one with the same tag. Blobs that only that one had are
 * removed. For the only writer since `images` were read. Throws Node's error.
 */
export async function putImage(
  dir: string,
  images: readonly LayoutImage[],
  tag: string,
  manifest: Descriptor,
): Promise<void> {
  const kept = images.filter((image) => image.tag !== tag);
  const named = { ...manifest, annotations: { [tagAnnotation]: tag } };
  const manifests = [...kept.map(({ entry }) => entry), named];
  await replaceFile(
    join(dir, indexBlob),
    JSON.stringify({ schemaVersion: 2, mediaType: indexType, manifests }),
  );
  const needed = new Set(kept.flatMap(({ blobs }) => blobs));
  const gone = images.filter((image) => image.tag === tag).flatMap(({ blobs }) => blobs);
  const fresh = await blobsOf(dir, manifest);
  for (const digest of new Set(gone)) {
    if (needed.has(digest) || fresh.has(digest)) continue;
    await promises.unlink(join(dir, blobName(digest))).catch((error: unknown) => {
      if (!isMissing(error)) throw error;
    });
  }
}

const indexType = 'application/vnd.oci.image.index.v1+json';

async function blobsOf(dir: string, { digest }: Descriptor): Promise<ReadonlySet<string>> {
  const text = await promises.readFile(join(dir, blobName(digest)), 'utf8');
  const { config, layers } = JSON.parse(text) as { config: Descriptor; layers: Descriptor[] };
  return new Set([digest, config.digest, ...layers.map((layer) => layer.digest)]);
}
