/** Adds annotations to an image in an OCI image layout. Its config and its layers stay as they are. */

import { join } from 'node:path';
import { asKfdError, KfdError } from '../errors.js';
import { replaceFile } from '../os/files.js';
import { withChanged, withMember } from '../runtime/json-text.js';
import { hasAll } from './image-annotations.js';
import { asOnlyWriter, type LayoutWait } from './layout-lock.js';
import {
  annotationsIn,
  blobName,
  digestOf,
  entryIn,
  indexBlob,
  manifestBytes,
  readIndex,
} from './oci-layout.js';

type Annotations = Readonly<Record<string, string>>;

/**
 * Adds what `wantedOf` finds in the image to the image `tag`, or to the only image. Other annotations stay. Returns
 * these, and whether anything was to be changed. The image gets another digest, so that signatures of it do not hold
 * any more. The earlier manifest stays as a blob: another index may name it. Throws as `wantedOf`, `entryIn` and
 * `asOnlyWriter`, and E_IO for an image that was replaced meanwhile.
 */
export async function annotateLayout(
  dir: string,
  tag: string | undefined,
  wantedOf: () => Promise<Annotations>,
  shown: string,
  wait: LayoutWait,
): Promise<{ readonly changed: boolean; readonly annotations: Annotations }> {
  const image = { tag, digest: entryIn(await readIndex(dir, shown), tag, shown).blob.name };
  const annotations = await wantedOf();
  // Where nothing is to be changed, the layout may be one that cannot be written.
  const { present } = await read(dir, image, shown);
  if (hasAll(present, annotations)) return { changed: false, annotations };
  try {
    await asOnlyWriter(dir, shown, wait, () => annotate(dir, image, annotations, shown));
  } catch (error) {
    throw asKfdError(error, shown);
  }
  return { changed: true, annotations };
}

/** An image that is to be annotated: `digest` is that of its manifest, as a name of a blob. */
interface Chosen {
  readonly tag: string | undefined;
  readonly digest: string;
}

async function read(dir: string, { tag, digest }: Chosen, shown: string) {
  const index = await readIndex(dir, shown);
  const { blob: manifest, isIndex, at } = entryIn(index, tag, shown);
  if (isIndex) throw new KfdError('E_USAGE', `${shown}: is an index of images`, { hint: oneImage });
  if (manifest.name !== digest) {
    throw new KfdError('E_IO', `${shown}: was replaced by another process`, {
      hint: 'run the command again, if the new image is to be annotated',
    });
  }
  const bytes = await manifestBytes(dir, manifest, shown);
  return { index, at, manifest, bytes, present: annotationsIn(bytes, manifest.name, shown) };
}

async function annotate(
  dir: string,
  image: Chosen,
  wanted: Annotations,
  shown: string,
): Promise<void> {
  const { index, at, manifest, bytes, present } = await read(dir, image, shown);
  const annotated = Buffer.from(
    edited(manifest.name, shown, () =>
      withMember(bytes.toString('utf8'), 'annotations', { ...present, ...wanted }),
    ),
  );
  const digest = digestOf(annotated);
  const described = (entry: unknown, place: number) => {
    if (place !== at) return entry;
    // An index may have a copy of the manifest within it, which would be the earlier one.
    const { data: _, ...rest } = entry as Record<string, unknown>;
    return { ...rest, digest, size: annotated.length };
  };
  const changed = edited(indexBlob, shown, () =>
    withChanged(index.toString('utf8'), ['manifests'], (list) =>
      (list as unknown[]).map(described),
    ),
  );
  // The index comes last: until then the image is the earlier one.
  await replaceFile(join(dir, blobName(digest)), annotated);
  await replaceFile(join(dir, indexBlob), changed);
}

const oneImage = 'name a checkpoint image of podman or of "kfd-checkpoint image"';

function edited(name: string, shown: string, edit: () => string): string {
  try {
    return edit();
  } catch (error) {
    throw new KfdError('E_IMAGE_CORRUPT', `${shown}: ${name}: cannot be changed`, { cause: error });
  }
}
