/**
 * Checkpoint images by name, as containers-transports(5) writes them: containers-storage:NAME, oci:DIR[:TAG] and
 * oci-archive:FILE[:TAG].
 */

import { stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type ContainerdImage, containerdImage, documentsOf } from '../archive/containerd-image.js';
import {
  annotationsIn,
  type Blob,
  blobPath,
  entryIn,
  type ImageEntry,
  indexBlob,
  layersIn,
  manifestBytes,
  readIndex,
} from '../archive/oci-layout.js';
import { assertGoesOn } from '../archive/tar-bytes.js';
import type { ContainerdDocuments } from '../archive/walk.js';
import { isMissing, KfdError, printable } from '../errors.js';
import { inWorkFolder } from '../os/temporary.js';
import type { CommandContext } from './context.js';

export type ImageReference =
  | { readonly transport: 'containers-storage'; readonly image: string }
  | {
      readonly transport: 'oci' | 'oci-archive';
      readonly path: string;
      readonly tag: string | undefined;
    };

/** podman waits for other commands that use its storage. */
const podmanMs = 60_000;

const tarHint = 'see what tar has printed before this line. TMPDIR names a folder with more room';

/** Undefined for anything without one of the three transports. Throws E_USAGE. */
export function imageReference(name: string): ImageReference | undefined {
  const [transport, rest = ''] = split(name);
  switch (transport) {
    case 'containers-storage':
      // Such a reference may also name another storage. podman knows its own by the name alone.
      if (!/^[a-zA-Z0-9][\w./:@-]*$/.test(rest)) {
        throw new KfdError('E_USAGE', `${name}: not a name of an image`, {
          hint: 'name it as "podman images" does',
        });
      }
      return { transport, image: rest };
    case 'oci':
    case 'oci-archive': {
      const [path, tag] = split(rest);
      if (path === '') throw new KfdError('E_USAGE', `${name}: names no file`);
      return { transport, path, tag };
    }
    default:
      return undefined;
  }
}

/** At the first colon, as containers/image does. */
function split(text: string): [string, string?] {
  const colon = text.indexOf(':');
  return colon < 0 ? [text] : [text.slice(0, colon), text.slice(colon + 1)];
}

/** A checkpoint that somebody has named. */
export interface NamedCheckpoint {
  /** An archive or a folder. */
  readonly path: string;
  /** Further layers of its image: archives that have stores. */
  readonly layers: readonly string[];
  /** undefined: the name is a path. */
  readonly reference: ImageReference | undefined;
  /** Of an image in a layout; of one that podman stores, podman knows them. */
  readonly annotations?: Readonly<Record<string, string>>;
  /** Of an image that containerd has made. */
  readonly containerd?: ContainerdCheckpoint;
}

export interface ContainerdCheckpoint {
  readonly image: ContainerdImage;
  /** containerd's name of the image; undefined where nothing tells it. */
  readonly name: string | undefined;
  readonly documents: ContainerdDocuments;
}

/**
 * Calls `work` with the checkpoint that `name` means. It is there until `work` ends. Anything but a reference of an
 * image is a path itself. `refuse` is called with an image of containerd before anything large is unpacked. Throws
 * E_USAGE, E_NOT_FOUND, E_IMAGE_CORRUPT, E_IMAGE_MISSING, E_HOST, E_IO, E_TIMEOUT, E_CANCELLED and what `work` and
 * `refuse` throw.
 */
export async function withCheckpoint<T>(
  name: string,
  context: CommandContext,
  work: (checkpoint: NamedCheckpoint) => Promise<T>,
  refuse?: Refusal,
): Promise<T> {
  const reference = imageReference(name);
  switch (reference?.transport) {
    case undefined:
      return work({ path: name, layers: [], reference: undefined });
    case 'containers-storage':
      return mounted(reference.image, context, (path) => work({ path, layers: [], reference }));
    case 'oci': {
      const found = await inLayout(reference, reference.path, name, async () => undefined, refuse);
      return work(found);
    }
    case 'oci-archive': {
      const { path } = reference;
      await assertFile(path, name);
      return inWorkFolder(dirname(path), async (folder) => {
        const take = (blob: string) => extract(path, blob, folder, name, context);
        return work(await inLayout(reference, folder, name, take, refuse));
      });
    }
  }
}

type LayoutReference = Exclude<ImageReference, { transport: 'containers-storage' }>;
export type Refusal = (image: ContainerdImage, reference: ImageReference, name?: string) => void;
/** Brings a file of the layout there. */
type Take = (blob: string) => Promise<void>;

/** What `reference` means in the layout `dir`. */
async function inLayout(
  reference: LayoutReference,
  dir: string,
  shown: string,
  take: Take,
  refuse?: Refusal,
): Promise<NamedCheckpoint> {
  await take(indexBlob);
  const entry = entryIn(await readIndex(dir, shown), reference.tag, shown);
  await take(entry.blob.name);
  const bytes = await manifestBytes(dir, entry.blob, shown);
  const blob = async (one: Blob) => {
    await take(one.name);
    return blobPath(dir, one, shown);
  };
  if (entry.isIndex) {
    const image = containerdImage(bytes, entry.blob.name, shown);
    refuse?.(image, reference, entry.name);
    const containerd = await containerdAt(dir, image, entry, shown, take);
    return { path: await blob(image.checkpoint), layers: [], reference, containerd };
  }
  const { checkpoint, stores } = layersIn(bytes, entry.blob.name, shown);
  const layers: string[] = [];
  for (const store of stores) layers.push(await blob(store));
  const annotations = annotationsIn(bytes, entry.blob.name, shown);
  return { path: await blob(checkpoint), layers, reference, annotations };
}

async function containerdAt(
  dir: string,
  image: ContainerdImage,
  { name }: ImageEntry,
  shown: string,
  take: Take,
): Promise<ContainerdCheckpoint> {
  if (image.spec !== undefined) await take(image.spec.name);
  const spec = image.spec && (await manifestBytes(dir, image.spec, shown));
  return { image, name, documents: documentsOf(image, spec, shown) };
}

async function assertFile(path: string, name: string): Promise<void> {
  const found = await stat(path).catch((error: unknown) => {
    if (!isMissing(error)) throw error;
    throw new KfdError('E_NOT_FOUND', `${name}: no such file`, { cause: error });
  });
  if (!found.isFile()) throw new KfdError('E_IMAGE_CORRUPT', `${name}: not a file`);
}

/** Unpacks one file of an archive into `folder`. tar says itself why it cannot. */
async function extract(
  archive: string,
  blob: string,
  folder: string,
  name: string,
  { runThrough, signal }: CommandContext,
): Promise<void> {
  const words = ['--extract', '--force-local', '--file', archive, '--directory', folder];
  const safely = ['--no-same-owner', '--no-same-permissions', '--occurrence=1'];
  const status = await runThrough('tar', [...words, ...safely, '--', blob], undefined, signal);
  assertGoesOn(name, signal);
  if (status === 0) return;
  throw new KfdError('E_IO', `${name}: ${blob} cannot be unpacked`, {
    hint: tarHint,
  });
}

/** Makes an archive of a mounted image in `folder`, and returns its path. tar says itself why it cannot. */
export async function packed(
  mount: string,
  folder: string,
  { runThrough, signal }: CommandContext,
): Promise<string> {
  const archive = join(folder, 'checkpoint.tar');
  const words = ['--create', '--force-local', '--file', archive, '--directory', mount, '.'];
  const status = await runThrough('tar', words, undefined, signal);
  assertGoesOn(mount, signal);
  if (status === 0) return archive;
  throw new KfdError('E_IO', `${mount}: no archive can be made of it`, { hint: tarHint });
}

/** podman shows the contents of an image that it stores, without a copy. */
async function mounted<T>(
  image: string,
  { run, err }: CommandContext,
  work: (path: string) => Promise<T>,
): Promise<T> {
  const podman = (verb: 'mount' | 'unmount') =>
    run('podman', ['image', verb, image], { timeoutMs: podmanMs });
  const found = await podman('mount');
  if (found === undefined) {
    throw new KfdError('E_HOST', `${image}: podman is missing`, { hint: 'install podman' });
  }
  if (found.status === undefined) {
    throw new KfdError('E_TIMEOUT', `podman: did not mount image ${image} in 60 s`, {
      hint: 'wait for the other command that uses this image',
    });
  }
  if (found.status !== 0) {
    throw new KfdError('E_NOT_FOUND', `${image}: ${lastLine(found.stderr)}`, {
      hint: '"podman images" lists the images of this host, and "podman pull" gets others',
    });
  }
  try {
    return await work(found.stdout.trim());
  } finally {
    const left = await podman('unmount');
    if (left?.status !== 0) err(`${printable(image)}: stays mounted: run "podman image unmount"\n`);
  }
}

const lastLine = (text: string) => printable(text.trim().split('\n').at(-1) ?? '');
