/**
 * Checkpoint images in an OCI image layout (image-layout.md and manifest.md of the OCI image specification 1.1).
 * Engines make them of one layer, whose tar file is what a podman archive is. Ours have layers with stores before it.
 */

import { createHash } from 'node:crypto';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import * as v from 'valibot';
import { isMissing, KfdError } from '../errors.js';
import { readBounded } from '../os/files.js';
import { documentText } from './document.js';

/** A file of the layout that a document names. */
export interface Blob {
  /** Relative to the layout. */
  readonly name: string;
  readonly bytes: number;
}

const maxDocument = 4 << 20;
/** On a descriptor in the list of images: its tag. */
export const tagAnnotation = 'org.opencontainers.image.ref.name';
/** The same, by `ctr image export`: the whole name, of which the tag above may be a part only. */
const containerdName = 'io.containerd.image.name';

const digest = v.pipe(v.string(), v.regex(/^sha256:[0-9a-f]{64}$/));
const descriptor = v.object({
  mediaType: v.pipe(v.string(), v.maxLength(200)),
  digest,
  size: v.pipe(v.number(), v.safeInteger(), v.minValue(0)),
  annotations: v.optional(v.record(v.string(), v.string())),
});
export type Descriptor = v.InferOutput<typeof descriptor>;

export const indexDocument = v.object({
  manifests: v.pipe(v.array(descriptor), v.maxLength(1000)),
});
const manifestDocument = v.object({
  config: v.optional(v.object({ digest })),
  layers: v.array(descriptor),
  annotations: v.optional(v.record(v.string(), v.string()), {}),
});

const manifestTypes: readonly string[] = [
  'application/vnd.oci.image.manifest.v1+json',
  'application/vnd.docker.distribution.manifest.v2+json',
];
const indexTypes: readonly string[] = [
  'application/vnd.oci.image.index.v1+json',
  'application/vnd.docker.distribution.manifest.list.v2+json',
];
const layerTypes =
  /^application\/vnd\.(oci\.image\.layer\.v1\.tar(\+gzip|\+zstd)?|docker\.image\.rootfs\.diff\.tar(\.gzip)?)$/;

/** The layout's list of images. */
export const indexBlob = 'index.json';

/** An image in the list of a layout. */
export interface ImageEntry {
  /** Its manifest, or its index. */
  readonly blob: Blob;
  readonly isIndex: boolean;
  /** Place in the list `manifests`. */
  readonly at: number;
  /** containerd's name of it. */
  readonly name: string | undefined;
}

/**
 * The image `tag`, or the only image, in the bytes of `index.json`. `shown`: what the user has named. Throws
 * E_NOT_FOUND, E_USAGE where a tag is needed, E_IMAGE_CORRUPT.
 */
export function entryIn(index: Buffer, tag: string | undefined, shown: string): ImageEntry {
  const { manifests } = parseDocument(indexDocument, index, indexBlob, shown);
  const tags = manifests.flatMap(tagsOf).filter((one, at, all) => all.indexOf(one) === at);
  const wanted = manifests.filter((one) => tag === undefined || tagsOf(one).includes(tag));
  const [first] = wanted;
  if (first === undefined) {
    throw new KfdError('E_NOT_FOUND', `${shown}: no such image in it`, {
      hint: tags.length === 0 ? 'leave out the tag' : `name one of ${tags.join(', ')}`,
    });
  }
  if (wanted.length > 1) {
    throw new KfdError('E_USAGE', `${shown}: has ${wanted.length} images`, {
      hint: `add one of these tags: ${tags.join(', ')}`,
    });
  }
  const isIndex = indexTypes.includes(first.mediaType);
  if (!isIndex && !manifestTypes.includes(first.mediaType)) {
    throw corrupt(shown, `${first.mediaType}: not the manifest of one image`);
  }
  const name = first.annotations?.[containerdName];
  return { blob: blobOf(first), isIndex, at: manifests.indexOf(first), name };
}

function tagsOf({ annotations }: Descriptor): string[] {
  const tags = [annotations?.[tagAnnotation], annotations?.[containerdName]];
  return tags.filter((tag) => tag !== undefined);
}

/**
 * The bytes of a manifest or another small document, which are those that the index names. Throws E_IMAGE_CORRUPT, also
 * for more than 4 MiB.
 */
export async function manifestBytes(dir: string, manifest: Blob, shown: string): Promise<Buffer> {
  const bytes = await read(dir, manifest.name, shown);
  if (bytes.length === manifest.bytes && manifest.name === blobName(digestOf(bytes))) return bytes;
  throw corrupt(shown, `${manifest.name}: not the manifest that ${indexBlob} names`);
}

/** As descriptors have it. */
export const digestOf = (bytes: Buffer): string =>
  `sha256:${createHash('sha256').update(bytes).digest('hex')}`;

/** Where a layout has the blob with this digest. */
export const blobName = (digest: string): string => `blobs/${digest.replace(':', '/')}`;

/** The layers of a checkpoint image. */
export interface Layers {
  /** Has the checkpoint. It is the last one. */
  readonly checkpoint: Blob;
  /** Have stores. */
  readonly stores: readonly Blob[];
}

/** More than any engine takes. */
const maxLayers = 127;

/** The layers in the bytes of a manifest, called `name`. Throws E_IMAGE_CORRUPT for an image that is no checkpoint. */
export function layersIn(manifest: Buffer, name: string, shown: string): Layers {
  const { layers } = parseDocument(manifestDocument, manifest, name, shown);
  const last = layers.at(-1);
  if (last === undefined || layers.length > maxLayers) {
    throw corrupt(shown, `not a checkpoint image: it has ${layers.length} layers`);
  }
  for (const { mediaType } of layers) {
    if (!layerTypes.test(mediaType)) {
      throw corrupt(shown, `${mediaType}: a layer of an unknown kind`);
    }
  }
  return { checkpoint: blobOf(last), stores: layers.slice(0, -1).map(blobOf) };
}

/** An image in the list of a layout. */
export interface LayoutImage {
  readonly tag: string | undefined;
  /** As it is in the list. */
  readonly entry: unknown;
  /** Digests of its manifest and of all that this names; empty for another kind of manifest. */
  readonly blobs: readonly string[];
  readonly layers: readonly Descriptor[];
}

/** All images of a layout, in the order of the list. Throws as `readIndex`, and E_IMAGE_CORRUPT. */
export async function layoutImages(dir: string, shown: string): Promise<LayoutImage[]> {
  const index = await readIndex(dir, shown);
  const entries = parseDocument(rawIndex, index, indexBlob, shown).manifests;
  const { manifests } = parseDocument(indexDocument, index, indexBlob, shown);
  const images: LayoutImage[] = [];
  for (const [at, found] of manifests.entries()) {
    const tag = found.annotations?.[tagAnnotation];
    const image = { tag, entry: entries[at] };
    if (!manifestTypes.includes(found.mediaType)) {
      images.push({ ...image, blobs: [], layers: [] });
      continue;
    }
    const blob = blobOf(found);
    const bytes = await manifestBytes(dir, blob, shown);
    const { config, layers } = parseDocument(manifestDocument, bytes, blob.name, shown);
    const named = [...(config ? [config] : []), ...layers].map((one) => one.digest);
    images.push({ ...image, blobs: [found.digest, ...named], layers });
  }
  return images;
}

const rawIndex = v.object({ manifests: v.array(v.unknown()) });

/** The annotations in the bytes of a manifest. Throws E_IMAGE_CORRUPT. */
export const annotationsIn = (manifest: Buffer, name: string, shown: string) =>
  parseDocument(manifestDocument, manifest, name, shown).annotations;

/** Path of a blob that is whole by its size. Throws E_IMAGE_CORRUPT. */
export async function blobPath(dir: string, { name, bytes }: Blob, shown: string): Promise<string> {
  const path = join(dir, name);
  const found = await present(stat(path), name, shown);
  if (!found.isFile()) throw corrupt(shown, `${name}: not a file`);
  const { size } = found;
  if (size !== bytes) throw corrupt(shown, `${name}: has ${size} bytes, and should have ${bytes}`);
  return path;
}

/** Where the layout has what a descriptor names. */
export const blobOf = (one: Descriptor): Blob => ({ name: blobName(one.digest), bytes: one.size });

/** The bytes of `index.json`. Throws E_NOT_FOUND, E_IMAGE_CORRUPT. */
export async function readIndex(dir: string, shown: string): Promise<Buffer> {
  try {
    return await readBounded(join(dir, indexBlob), maxDocument, 'E_IMAGE_CORRUPT');
  } catch (error) {
    if (!isMissing(error)) throw error;
    throw new KfdError('E_NOT_FOUND', `${shown}: no OCI image layout is there`, { cause: error });
  }
}

const read = (dir: string, name: string, shown: string): Promise<Buffer> =>
  present(readBounded(join(dir, name), maxDocument, 'E_IMAGE_CORRUPT'), name, shown);

async function present<T>(found: Promise<T>, name: string, shown: string): Promise<T> {
  try {
    return await found;
  } catch (error) {
    throw isMissing(error) ? corrupt(shown, `${name} is missing`) : error;
  }
}

/** A JSON document of the layout, called `name`. Throws E_IMAGE_CORRUPT. */
export function parseDocument<T>(
  schema: v.GenericSchema<unknown, T>,
  bytes: Buffer,
  name: string,
  shown: string,
): T {
  const text = documentText(name, bytes);
  try {
    return v.parse(schema, JSON.parse(text));
  } catch (error) {
    throw corrupt(shown, `${name}: not what an OCI image layout has there`, error);
  }
}

const corrupt = (shown: string, reason: string, cause?: unknown) =>
  new KfdError('E_IMAGE_CORRUPT', `${shown}: ${reason}`, {
    hint: 'name a checkpoint image, as "podman container checkpoint --create-image" makes it',
    ...(cause !== undefined && { cause }),
  });
