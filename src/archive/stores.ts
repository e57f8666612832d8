/** The GPU contents of a checkpoint as stores, which are layers of an image. */

import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import type {
  ChainPart,
  PagesListing,
  PagesPart,
  StoresOrder,
  StoresWritten,
  StoreUse,
} from '../addon/images.js';
import { isMissing, KfdError } from '../errors.js';
import { encodeManifest } from '../manifest/codec.js';
import { isDetached, pagesFilesOf } from '../manifest/elsewhere.js';
import {
  firstStore,
  manifestName,
  maxStores,
  pagesFileName,
  storePattern,
  storesFeature,
} from '../manifest/names.js';
import type { Manifest, ManifestFile } from '../manifest/schema.js';
import { putStore, storeBegin, storeIn } from './layer-blob.js';
import { imagePrefix } from './names.js';
import { blobName, type Descriptor, type LayoutImage } from './oci-layout.js';
import type { CheckpointWithPages } from './pages-parts.js';
import type { Contents } from './rewrite.js';
import { planStores } from './store-plan.js';

/** Functions of the addon. They reject with E_IMAGE_CORRUPT, E_IO, E_UNSUPPORTED_STATE, E_CANCELLED. */
export interface StoreMaker {
  uses(
    files: readonly ChainPart[],
    stores: readonly PagesPart[],
  ): Promise<{ readonly missing: number; readonly uses: readonly StoreUse[] }>;
  write(
    files: readonly ChainPart[],
    stores: readonly PagesPart[],
    order: StoresOrder,
  ): Promise<StoresWritten>;
}

/** A layer with a store. */
export interface StoreLayer {
  readonly descriptor: Descriptor;
  readonly isNew: boolean;
}

export interface Stored {
  readonly manifest: Manifest;
  /** New pages files and manifest of the checkpoint, by entry name. */
  readonly files: ReadonlyMap<string, Contents>;
  readonly layers: readonly StoreLayer[];
}

/** On the descriptor of a layer: the root of its store, and its ordinal in hexadecimal digits. */
const storeAnnotation = 'io.kfd-checkpoint.store';
/** Stores of a layout that are looked into, the latest first. Each is an open file. */
const mostKnown = 256;

interface KnownStore {
  readonly part: PagesPart;
  readonly descriptor: Descriptor;
}

/**
 * Puts the contents of `checkpoint` into stores in the layout `dir`, as far as no store of its `images` has them. New
 * files are made in `folder`, which is on the file system of the layout. Throws E_USAGE for a checkpoint that lacks
 * contents, E_IMAGE_CORRUPT, Node's error, and the errors of `maker`.
 */
export async function storeContents(
  { contents, pages }: CheckpointWithPages,
  images: readonly LayoutImage[],
  dir: string,
  folder: string,
  maker: StoreMaker,
): Promise<Stored> {
  const { manifest } = contents;
  if (manifest === undefined || manifest.parent !== null || isDetached(manifest)) {
    throw new KfdError('E_USAGE', `${contents.path}: does not have all its GPU contents`, {
      hint: 'name the whole checkpoint of a container with a GPU; "kfd-checkpoint flatten" adds a parent',
    });
  }
  const siblings = [...pages.values()];
  const own = pagesFilesOf(manifest).filter(({ name }) => !storePattern.test(name));
  const files = own.flatMap(({ name }) => {
    const part = pages.get(name);
    return part ? [{ ...part, siblings }] : [];
  });
  const { known, ordinals } = await knownStores(images, dir);
  const found = await maker.uses(
    files,
    known.map(({ part }) => part),
  );
  const plan = planStores(found.uses, found.missing);
  const kept = plan.kept.flatMap((place) => known[place] ?? []);
  const targets = freeOrdinals(ordinals, plan.added).map((ordinal) => ({
    path: join(folder, pagesFileName(0, ordinal)),
    ordinal,
  }));
  const written = await maker.write(
    files,
    kept.map(({ part }) => part),
    {
      targets,
      begin: storeBegin,
      bytes: plan.bytes,
      rewritten: own.map(({ name }) => join(folder, `own-${name}`)),
    },
  );
  const added: KnownStore[] = [];
  for (const [place, listing] of written.stores.entries()) {
    const { path = '' } = targets[place] ?? {};
    const descriptor = await putStore(dir, path, pagesFileName(0, listing.gpu), listing.fileBytes);
    added.push({ part: partOf(listing, path), descriptor: annotated(descriptor, listing) });
  }
  return stored(manifest, own, [...kept, ...added], kept.length, written.files, folder);
}

function stored(
  manifest: Manifest,
  own: readonly ManifestFile[],
  stores: readonly KnownStore[],
  keptCount: number,
  listings: readonly PagesListing[],
  folder: string,
): Stored {
  const described = new Map<string, ManifestFile>();
  const files = new Map<string, Contents>();
  for (const [place, { name }] of own.entries()) {
    const listing = listings[place];
    if (listing === undefined) throw new KfdError('E_INTERNAL', `${name}: was not written`);
    const { fileBytes: size, root } = listing;
    described.set(name, { name, size, digest: { algo: 'xxh3-128', hex: root } });
    files.set(imagePrefix + name, { path: join(folder, `own-${name}`), offset: 0, size });
  }
  const others = manifest.files.filter(({ name }) => !storePattern.test(name));
  const inLayers = stores.map(
    ({ part: { gpu, size, root } }): ManifestFile => ({
      name: pagesFileName(0, gpu),
      size,
      digest: { algo: 'xxh3-128', hex: root },
    }),
  );
  const { features } = manifest;
  const required = features.required.filter((feature) => feature !== storesFeature);
  const whole: Manifest = {
    ...manifest,
    features: {
      ...features,
      required: stores.length > 0 ? [...required, storesFeature] : required,
    },
    files: [...others.map((file) => described.get(file.name) ?? file), ...inLayers],
  };
  files.set(imagePrefix + manifestName, Buffer.from(encodeManifest(whole)));
  const layers = stores.map(({ descriptor }, place) => ({ descriptor, isNew: place >= keptCount }));
  return { manifest: whole, files, layers };
}

const partOf = (
  { fileBytes: size, process, gpu, root }: PagesListing,
  path: string,
): PagesPart => ({ path, offset: storeBegin, size, process, gpu, root });

const annotated = (descriptor: Descriptor, { gpu, root }: PagesListing): Descriptor => ({
  ...descriptor,
  annotations: { [storeAnnotation]: `${gpu.toString(16)} ${root}` },
});

/** Stores that the layout has, and the ordinals that are taken. What is damaged or gone is not used. */
async function knownStores(images: readonly LayoutImage[], dir: string) {
  const known = new Map<string, KnownStore>();
  const ordinals = new Set<number>();
  for (const { layers } of images.toReversed()) {
    for (const descriptor of layers) {
      const text = descriptor.annotations?.[storeAnnotation] ?? '';
      const [, ordinal = '', root = ''] = /^([89a-f][0-9a-f]{3}) ([0-9a-f]{32})$/.exec(text) ?? [];
      if (root === '') continue;
      // Two stores of one ordinal cannot be in one image.
      const isTaken = ordinals.has(Number.parseInt(ordinal, 16));
      ordinals.add(Number.parseInt(ordinal, 16));
      if (isTaken || known.size >= mostKnown) continue;
      const part = await partIn(join(dir, blobName(descriptor.digest)), descriptor.size, root);
      if (part?.gpu === Number.parseInt(ordinal, 16)) known.set(ordinal, { part, descriptor });
    }
  }
  const sorted = [...known.values()].sort((a, b) => a.part.gpu - b.part.gpu);
  return { known: sorted, ordinals };
}

async function partIn(path: string, size: number, root: string): Promise<PagesPart | undefined> {
  try {
    return (await stat(path)).size === size ? await storeIn(path, root) : undefined;
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

function freeOrdinals(taken: ReadonlySet<number>, count: number): number[] {
  const free: number[] = [];
  for (let ordinal = firstStore; free.length < count; ordinal++) {
    if (ordinal >= firstStore + maxStores) {
      throw new KfdError('E_USAGE', 'the layout has as many stores as it may have', {
        hint: 'begin a new layout in another folder',
      });
    }
    if (!taken.has(ordinal)) free.push(ordinal);
  }
  return free;
}
