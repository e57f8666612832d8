/** The contents of a checkpoint, from one walk. Small files are read, all others only counted. */

import { KfdError } from '../errors.js';
import { decodeManifest } from '../manifest/codec.js';
import { foldersFor, isDetached } from '../manifest/elsewhere.js';
import { imageFilePattern, manifestName, pagesPattern } from '../manifest/names.js';
import { type Manifest, manifestLimits } from '../manifest/schema.js';
import { isCrunMask } from '../runtime/crun-masks.js';
import { type ContainerFacts, containerFacts } from './container.js';
import { externalMounts, isMountsImage, maxMountsBytes } from './criu-mounts.js';
import { walkContents } from './directory.js';
import { documentText } from './document.js';
import { imagePrefix, previousPrefix, rootfsDiff, smallFiles } from './names.js';
import { walkCheckpoint } from './source.js';
import type { CheckpointEntry, Visit, WalkOptions, WalkResult } from './walk.js';

/** Bytes of the largest config.dump or spec.dump that is read. */
export const maxJsonBytes = 4 << 20;
/** Bytes of the header of a state file. */
const headBytes = 128;
/** First four bytes of inventory.img, little endian. It is the only image without the common magic. */
const inventoryMagic = 0x58313116;

export interface CheckpointContents extends WalkResult {
  readonly path: string;
  /** undefined: no manifest. Either there is no GPU, or, with `imageFiles`, the image was never finished. */
  readonly manifest: Manifest | undefined;
  /** The folder in which its pages files were found; undefined: in the image, or nobody has named one. */
  readonly contentsFolder: string | undefined;
  /** From config.dump and spec.dump; undefined when both are missing. */
  readonly container: ContainerFacts | undefined;
  /** Texts of config.dump and spec.dump, unchanged. */
  readonly documents: { readonly config: string | undefined; readonly spec: string | undefined };
  /** Our state and pages files: name in the image directory to bytes. */
  readonly imageFiles: ReadonlyMap<string, number>;
  /** Whether only a crun that restores masked folders of its own can restore it. */
  readonly hasCrunMasks: boolean;
  readonly sizes: CheckpointSizes;
}

/** Bytes. */
export interface CheckpointSizes {
  /** Sum of all files of the archive, unpacked, and of the folder of its contents. */
  readonly total: number;
  /** Host memory: CRIU's `pages-*.img`. */
  readonly memoryPages: number;
  /** Contents of GPU buffers: `amdgpu-pages-*`. */
  readonly gpuPages: number;
  readonly rootfsDiff: number;
}

/**
 * Reads a checkpoint, and then the folder of its contents where they are detached. `also` sees every entry that is not
 * read here, for example to verify it. Throws the errors of `walkCheckpoint`, `walkContents` and `decodeManifest`,
 * E_IMAGE_CORRUPT for a file that is no checkpoint, and E_IMAGE_MISSING for a pre-checkpoint.
 */
export async function readContents(
  path: string,
  options: WalkOptions,
  also?: Visit,
): Promise<CheckpointContents> {
  const texts = new Map<string, Buffer>();
  const imageFiles = new Map<string, number>();
  const sizes = { total: 0, memoryPages: 0, gpuPages: 0, rootfsDiff: 0 };
  let isCriu = false;
  let isPrevious = false;
  let hasCrunMasks = false;

  const visit: Visit = async (entry, content) => {
    count(entry, sizes, imageFiles);
    isPrevious ||= entry.name.startsWith(previousPrefix);
    const bound = boundOf(entry.name);
    if (bound !== undefined) {
      texts.set(entry.name, await collect(entry, content, bound));
    } else if (entry.name === smallFiles.inventory) {
      isCriu = isInventory(await collect(entry, content, 1 << 20));
    } else if (isMountsImage(entry.name) && entry.size <= maxMountsBytes) {
      const names = externalMounts(await collect(entry, content, maxMountsBytes));
      hasCrunMasks ||= names.some(isCrunMask);
    } else {
      await also?.(entry, content);
    }
  };
  const result = await walkCheckpoint(path, options, visit);

  if (!isCriu && isPrevious) {
    throw new KfdError('E_IMAGE_MISSING', `${path}: a pre-checkpoint: it has host memory only`, {
      hint: 'name the archive that "podman container checkpoint --with-previous" writes later',
    });
  }
  if (!isCriu) {
    throw new KfdError(
      'E_IMAGE_CORRUPT',
      `${path}: not a checkpoint: no CRIU ${smallFiles.inventory}`,
      {
        hint: 'name an archive written by "podman container checkpoint --export", or its directory',
      },
    );
  }
  const documents = {
    config: documentText(smallFiles.config, texts.get(smallFiles.config)),
    spec: documentText(smallFiles.spec, texts.get(smallFiles.spec)),
  };
  const text = texts.get(imagePrefix + manifestName);
  const manifest = text && decodeManifest(text);
  if (manifest !== undefined && isDetached(manifest)) assertNoPages(path, imageFiles);
  const contentsFolder = manifest && foldersFor(manifest, options.contents ?? []).own;
  const more =
    contentsFolder === undefined ? [] : await walkContents(contentsFolder, options, visit);
  return {
    ...result,
    misplaced: [...result.misplaced, ...more],
    path,
    manifest,
    contentsFolder,
    container: containerFacts(documents.config, documents.spec),
    documents,
    imageFiles,
    hasCrunMasks,
    sizes,
  };
}

/** Two files of one name: readers could take either. */
function assertNoPages(path: string, imageFiles: ReadonlyMap<string, number>): void {
  const name = [...imageFiles.keys()].find((one) => pagesPattern.test(one));
  if (name === undefined) return;
  throw new KfdError(
    'E_IMAGE_CORRUPT',
    `${path}: ${name}: in an image whose contents are elsewhere`,
    {
      hint: 'use another copy of the archive',
    },
  );
}

/** The largest size of a file whose text is kept; undefined for other files. */
function boundOf(name: string): number | undefined {
  if (name === smallFiles.config || name === smallFiles.spec) return maxJsonBytes;
  return name === imagePrefix + manifestName ? manifestLimits.fileBytes : undefined;
}

function count(
  entry: CheckpointEntry,
  sizes: { -readonly [K in keyof CheckpointSizes]: number },
  imageFiles: Map<string, number>,
): void {
  sizes.total += entry.size;
  if (entry.name === rootfsDiff) sizes.rootfsDiff += entry.size;
  if (!entry.name.startsWith(imagePrefix)) return;
  const name = entry.name.slice(imagePrefix.length);
  if (imageFilePattern.test(name)) imageFiles.set(name, entry.size);
  if (pagesPattern.test(name)) sizes.gpuPages += entry.size;
  if (/^pages-\d+\.img$/.test(name)) sizes.memoryPages += entry.size;
}

/** All bytes of an entry. Throws E_IMAGE_CORRUPT for more than `maxBytes`, before it keeps any. */
export async function collect(
  entry: CheckpointEntry,
  content: AsyncIterable<Buffer>,
  maxBytes: number,
): Promise<Buffer> {
  return (await collectState(entry, content, maxBytes, () => true)) ?? Buffer.alloc(0);
}

/**
 * As `collect`, but undefined when `isSound` refuses the first 128 bytes: then no more bytes are kept. It is not asked
 * about a file without further bytes. `each` sees all bytes, also those of a refused file.
 */
export async function collectState(
  entry: CheckpointEntry,
  content: AsyncIterable<Buffer>,
  maxBytes: number,
  isSound: (head: Buffer) => boolean,
  each?: (chunk: Buffer) => void,
): Promise<Buffer | undefined> {
  const corrupt = (reason: string) => new KfdError('E_IMAGE_CORRUPT', `${entry.name}: ${reason}`);
  if (entry.size > maxBytes) throw corrupt(`larger than ${maxBytes} bytes`);
  const headSize = Math.min(headBytes, entry.size);
  let bytes = Buffer.alloc(headSize);
  let total = 0;
  let isRefused = false;
  for await (const chunk of content) {
    each?.(chunk);
    // In a compressed archive other files follow.
    if (isRefused && (entry.place === undefined || each !== undefined)) continue;
    if (isRefused) break;
    if (total + chunk.length > entry.size) throw corrupt('became larger while it was read');
    const taken = chunk.copy(bytes, total);
    total += taken;
    if (total < headSize || taken === chunk.length) continue;
    isRefused = !isSound(bytes);
    if (isRefused) continue;
    // Nothing was kept before: a refused file costs its head.
    const head = bytes;
    bytes = Buffer.allocUnsafeSlow(entry.size);
    total = head.copy(bytes) + chunk.copy(bytes, headSize, taken);
  }
  return isRefused ? undefined : bytes.subarray(0, total);
}

function isInventory(bytes: Buffer): boolean {
  return bytes.length >= 4 && bytes.readUInt32LE(0) === inventoryMagic;
}
