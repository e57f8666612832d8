/** `kfd-checkpoint image`: makes a checkpoint image whose layers with GPU contents stay while the contents do. */

import { open, realpath } from 'node:fs/promises';
import { join } from 'node:path';
import { Argument, Command } from 'commander';
import { gpuAnnotations } from '../archive/image-annotations.js';
import { imageConfig, imageManifest } from '../archive/image-documents.js';
import { storeName } from '../archive/layers.js';
import { asOnlyWriter } from '../archive/layout-lock.js';
import type { Descriptor } from '../archive/oci-layout.js';
import { mediaTypes, openLayout, putBytes, putFile, putImage } from '../archive/oci-writer.js';
import { assertRoom, bytesToUnpack, readWithPlaces, withPages } from '../archive/pages-parts.js';
import { type Stored, storeContents } from '../archive/stores.js';
import { asKfdError, KfdError } from '../errors.js';
import { inFolderIn, inWorkFolder } from '../os/temporary.js';
import { annotationsOf } from './annotations-of.js';
import { refuseContainerd } from './containerd-steps.js';
import type { CommandContext } from './context.js';
import { formatOption, json, size } from './format.js';
import { imageReference, type NamedCheckpoint, packed, withCheckpoint } from './image-reference.js';
import { checkpointArgument } from './inspect.js';
import { rewriteTo } from './rewrite-archive.js';

interface ImageOptions {
  readonly quiet?: boolean;
  readonly format: 'text' | 'json';
}

export function imageCommand(context: CommandContext): Command {
  return new Command('image')
    .addArgument(checkpointArgument())
    .addArgument(new Argument('<image>', 'oci:DIR:TAG, an image in an OCI layout'))
    .option('--quiet', 'print no progress')
    .addOption(formatOption('text', 'json'))
    .action(async (name: string, image: string, options: ImageOptions) => {
      const target = targetOf(image);
      const made = await makeImage(name, target, image, options, context).catch(
        (error: unknown) => {
          throw asKfdError(error, image);
        },
      );
      context.out(
        options.format === 'json' ? json(asJson(name, image, made)) : asText(image, made),
      );
    });
}

async function makeImage(
  name: string,
  target: Target,
  image: string,
  options: ImageOptions,
  context: CommandContext,
): Promise<Made> {
  const alone = (work: () => Promise<Made>) => asOnlyWriter(target.dir, image, context, work);
  const write = (found: NamedCheckpoint) => writeImage(found, target, image, options, context);
  const read = (work: typeof write) =>
    withCheckpoint(
      name,
      context,
      work,
      refuseContainerd(name, 'no image in layers can be made of it'),
    );
  // Another writer may replace the image that is read. A folder that is no layout yet is made only for what can be one.
  return (await isIn(target, name))
    ? alone(() => read(write))
    : read((found) => alone(() => write(found)));
}

/** Whether `name` is an image of the layout that is written. */
async function isIn({ dir }: Target, name: string): Promise<boolean> {
  const reference = imageReference(name);
  if (reference?.transport !== 'oci') return false;
  const real = (path: string) => realpath(path).catch(() => undefined);
  const [source, target] = [await real(reference.path), await real(dir)];
  return source !== undefined && source === target;
}

interface Target {
  readonly dir: string;
  readonly tag: string;
}

/** Throws E_USAGE. */
function targetOf(image: string): Target {
  const reference = imageReference(image);
  const { path: dir, tag } = reference?.transport === 'oci' ? reference : { path: '', tag: '' };
  // As containers/image allows it.
  const part = '[A-Za-z0-9]+(?:(?:[-._:@+]|--)[A-Za-z0-9]+)*';
  if (tag !== undefined && new RegExp(`^${part}(/${part})*$`).test(tag)) return { dir, tag };
  throw new KfdError('E_USAGE', `${image}: not the name of an image in a layout`, {
    hint: 'name oci:DIR:TAG, for example oci:/srv/job:registry.example/job:1',
  });
}

interface Made {
  readonly manifest: Descriptor;
  readonly layers: readonly { readonly descriptor: Descriptor; readonly isNew: boolean }[];
}

async function writeImage(
  found: NamedCheckpoint,
  { dir, tag }: Target,
  image: string,
  { quiet }: ImageOptions,
  context: CommandContext,
): Promise<Made> {
  const { native, signal } = context;
  const images = await openLayout(dir, image);
  return inFolderIn(dir, async (folder) => {
    const options = {
      zstdDecoder: native.zstdDecoder,
      verifier: native.verifier(),
      layers: found.layers,
      signal,
    };
    const checkpoint = await readWithPlaces(found.path, options);
    await assertRoom(folder, bytesToUnpack(checkpoint));
    const whole = await withPages(checkpoint, options, folder, '');
    const stored = await storeContents(whole, images, dir, folder, native.storeMaker(signal));
    const how = { quiet: quiet === true };
    const top = await checkpointLayer(found, stored, dir, folder, how, context);
    const layers = [...stored.layers, { descriptor: top, isNew: true }];
    const { container } = checkpoint.contents;
    const labels = gpuAnnotations(stored.manifest);
    const annotations = { ...(await annotationsOf(found, container, context)), ...labels };
    const blobs = layers.map(({ descriptor }) => descriptor);
    const config = await putBytes(
      dir,
      mediaTypes.config,
      imageConfig(stored.manifest, blobs, labels),
    );
    const manifest = await putBytes(
      dir,
      mediaTypes.manifest,
      imageManifest(config, blobs, annotations),
    );
    await putImage(dir, images, tag, manifest);
    return { manifest, layers };
  });
}

/** The layer with all of the checkpoint but its stores. */
async function checkpointLayer(
  { path }: NamedCheckpoint,
  { files }: Stored,
  dir: string,
  folder: string,
  { quiet }: { readonly quiet: boolean },
  context: CommandContext,
): Promise<Descriptor> {
  const target = join(folder, 'checkpoint-layer');
  const file = await open(target, 'wx+', 0o600);
  try {
    const how = { quiet, plain: true, leaveOut: (name: string) => storeName(name) !== undefined };
    await asArchive(path, context, (archive) => rewriteTo(file.fd, archive, files, context, how));
  } finally {
    await file.close();
  }
  return putFile(dir, mediaTypes.layer, target);
}

/** Of a folder tar makes one. */
async function asArchive(
  path: string,
  context: CommandContext,
  work: (archive: string) => Promise<void>,
): Promise<void> {
  const handle = await open(path);
  const isFolder = await handle
    .stat()
    .then((found) => found.isDirectory())
    .finally(() => handle.close());
  if (!isFolder) return work(path);
  await inWorkFolder('/var/tmp', async (folder) => work(await packed(path, folder, context)));
}

const bytesOf = (layers: Made['layers']) =>
  layers.reduce((sum, { descriptor }) => sum + descriptor.size, 0);

function asText(image: string, { layers }: Made): string {
  const fresh = layers.filter(({ isNew }) => isNew);
  return (
    `${image}: ${layers.length} layers, ${size(bytesOf(layers))}; ` +
    `new: ${fresh.length} layers, ${size(bytesOf(fresh))}\n`
  );
}

function asJson(checkpoint: string, image: string, { manifest, layers }: Made) {
  return {
    schema_version: 1,
    checkpoint,
    image,
    digest: manifest.digest,
    bytes: bytesOf(layers),
    new_bytes: bytesOf(layers.filter(({ isNew }) => isNew)),
    layers: layers.map(({ descriptor: { digest, size: bytes }, isNew }) => ({
      digest,
      bytes,
      new: isNew,
    })),
  };
}
