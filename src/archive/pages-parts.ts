/** Random access to the pages files of a checkpoint, in the archive or unpacked. */

import { createWriteStream } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { FilePart, PagesPart } from '../addon.js';
import { KfdError } from '../errors.js';
import { pagesPattern } from '../manifest/names.js';
import type { ManifestFile } from '../manifest/schema.js';
import { type CheckpointContents, readContents } from './contents.js';
import { imagePrefix } from './names.js';
import { walkCheckpoint } from './source.js';
import type { ImageVerifier } from './verifier.js';
import type { CheckpointEntry, WalkOptions } from './walk.js';

/** A checkpoint, and where its pages files are. None of them is there for a compressed archive. */
export interface CheckpointWithPlaces {
  readonly contents: CheckpointContents;
  /** By name in the image directory. */
  readonly places: ReadonlyMap<string, FilePart>;
}

export interface CheckpointWithPages {
  readonly contents: CheckpointContents;
  /** By name in the image directory. */
  readonly pages: ReadonlyMap<string, PagesPart>;
}

export interface PagesOptions extends WalkOptions {
  readonly verifier: ImageVerifier;
}

/** Reads a checkpoint. Throws the errors of `readContents`. */
export async function readWithPlaces(
  path: string,
  options: WalkOptions,
): Promise<CheckpointWithPlaces> {
  const places = new Map<string, FilePart>();
  const contents = await readContents(path, options, async (entry) => {
    const name = pagesName(entry);
    if (name !== undefined && entry.place !== undefined) places.set(name, entry.place);
  });
  return { contents, places };
}

/**
 * Bytes that `withPages` unpacks. Throws E_IMAGE_MISSING, and E_IMAGE_CORRUPT for a file of another size than the
 * manifest says.
 */
export function bytesToUnpack({ contents, places }: CheckpointWithPlaces): number {
  const files = pagesOf(contents);
  for (const file of files) assertSize(contents, file);
  return files.filter(({ name }) => !places.has(name)).reduce((sum, { size }) => sum + size, 0);
}

/** Throws E_IO unless `folder` has room for `bytes`. */
export async function assertRoom(folder: string, bytes: number): Promise<void> {
  const { bavail, bsize } = await statfs(folder);
  if (bytes <= bavail * bsize) return;
  const reason = `needs ${bytes} bytes, ${bavail * bsize} are free`;
  throw new KfdError('E_IO', `${folder}: no room for the GPU contents: ${reason}`, {
    hint: 'set TMPDIR to a folder with more room',
  });
}

/**
 * The pages files that the manifest names. Those of a compressed archive are unpacked into `folder`, under names that
 * begin with `prefix`, as far as they are sound. Throws E_IMAGE_CORRUPT, the errors of `walkCheckpoint`, and Node's
 * error.
 */
export async function withPages(
  { contents, places }: CheckpointWithPlaces,
  options: PagesOptions,
  folder: string,
  prefix: string,
): Promise<CheckpointWithPages> {
  const found = new Map(places);
  const files = pagesOf(contents);
  const packed = new Map(
    files.filter(({ name }) => !places.has(name)).map((file) => [file.name, file]),
  );
  if (packed.size > 0) {
    await walkCheckpoint(contents.path, options, async (entry, content) => {
      const file = packed.get(pagesName(entry) ?? '');
      if (file === undefined) return;
      if (entry.size !== file.size) throw corrupt(contents, file, 'changed while it was read');
      const path = join(folder, `${prefix}${file.name}`);
      const checked = whileSound(content, contents, file, options.verifier);
      await pipeline(Readable.from(checked), createWriteStream(path, { flags: 'wx', mode: 0o600 }));
      found.set(file.name, { path, offset: 0, size: file.size });
    });
  }
  const pages = new Map<string, PagesPart>();
  for (const file of files) {
    const place = found.get(file.name);
    if (place === undefined) throw corrupt(contents, file, 'went away while it was read');
    const [, process = '', gpu = ''] = pagesPattern.exec(file.name) ?? [];
    const ordinals = { process: Number(process), gpu: Number.parseInt(gpu, 16) };
    pages.set(file.name, { ...place, ...ordinals, root: file.digest.hex });
  }
  return { contents, pages };
}

/** Few bytes of an archive can become many. The first damaged one ends it. */
async function* whileSound(
  content: AsyncIterable<Buffer>,
  contents: CheckpointContents,
  file: ManifestFile,
  verifier: ImageVerifier,
): AsyncGenerator<Buffer> {
  const check = verifier.pagesCheck();
  const sound = (step: () => void): void => {
    try {
      step();
    } catch (error) {
      throw corrupt(contents, file, error instanceof Error ? error.message : String(error), error);
    }
  };
  for await (const chunk of content) {
    sound(() => check.feed(chunk));
    yield chunk;
  }
  sound(() => void check.finish());
}

function pagesName({ name }: CheckpointEntry): string | undefined {
  const file = name.startsWith(imagePrefix) ? name.slice(imagePrefix.length) : '';
  return pagesPattern.test(file) ? file : undefined;
}

function pagesOf({ manifest }: CheckpointContents): ManifestFile[] {
  return manifest?.files.filter(({ name }) => pagesPattern.test(name)) ?? [];
}

function assertSize(contents: CheckpointContents, file: ManifestFile): void {
  const size = contents.imageFiles.get(file.name);
  if (size === undefined) {
    throw new KfdError('E_IMAGE_MISSING', `${contents.path}: ${file.name} is not in it`);
  }
  if (size !== file.size) {
    throw corrupt(contents, file, `is ${size} bytes, was ${file.size} when sealed`);
  }
}

function corrupt(
  { path }: CheckpointContents,
  { name }: ManifestFile,
  reason: string,
  cause?: unknown,
): KfdError {
  return new KfdError('E_IMAGE_CORRUPT', `${path}: ${name}: ${reason}`, {
    cause,
    hint: 'use another copy of the archive',
  });
}
