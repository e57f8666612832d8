/** Archives and image directories made of a small sound image with one fault, and inputs for all of them at once. */

import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { entriesOf, type Files, tarOf } from '../unit/archive-builder.js';
import {
  checkpointFiles,
  describeFiles,
  imageFiles,
  type Parts,
  soundParts,
} from '../unit/forged-image.js';
import { written } from './sound.js';
import type { HostileInput } from './suite.js';

export type Bend = (parts: Parts) => void;

/** Changes the entries of an archive, or the files of a directory, after the manifest is sealed. */
export type BendFiles = (files: Files) => void;

/** What is wrong, in words and in the making, and what the program must say of it. */
export type Case = readonly [name: string, says: RegExp, bend: Bend];

/** The path of an archive of the bent image. `level`: of gzip; without it the archive is not compressed. */
export async function bentArchive(
  dir: string,
  bend: Bend,
  { name = 'job.tar', level, files: bendFiles }: ArchiveOptions = {},
): Promise<string> {
  const parts = soundParts();
  bend(parts);
  return archiveOfParts(dir, parts, { name, level, files: bendFiles });
}

interface ArchiveOptions {
  readonly name?: string;
  readonly level?: number | undefined;
  readonly files?: BendFiles | undefined;
}

export async function archiveOfParts(
  dir: string,
  parts: Parts,
  { name = 'job.tar', level, files: bendFiles }: ArchiveOptions = {},
): Promise<string> {
  const files = checkpointFiles(parts);
  bendFiles?.(files);
  const tar = await tarOf(entriesOf(files));
  return written(dir, name, level === undefined ? tar : gzipSync(tar, { level }));
}

/** The path of an image directory. */
export async function bentDirectory(
  dir: string,
  bend: Bend,
  bendFiles: BendFiles = () => undefined,
): Promise<string> {
  const parts = soundParts();
  bend(parts);
  const files = imageFiles(parts);
  bendFiles(files);
  const path = join(dir, 'image');
  await mkdir(path);
  for (const [name, bytes] of Object.entries(files)) await writeFile(join(path, name), bytes);
  return path;
}

/** One input of `verb` for each case: an archive that must be refused as corrupt. */
export function refused(verb: string, cases: readonly Case[]): HostileInput[] {
  return cases.map(([name, says, bend]) => ({
    name,
    verb,
    args: async (dir) => [await bentArchive(dir, bend)],
    status: 5,
    code: 'E_IMAGE_CORRUPT',
    says,
  }));
}

/** Gives the image another file of this name, which its manifest describes as it is. */
export function replaced(name: string, bytes: Buffer): Bend {
  return (parts) => {
    parts.files.set(name, bytes);
    describeFiles(parts);
  };
}

/** Changes the bytes of a file. Its manifest describes them. */
export function changed(name: string, change: (bytes: Buffer) => Buffer): Bend {
  return (parts) => {
    parts.files.set(name, change(Buffer.from(parts.files.get(name) ?? '')));
    describeFiles(parts);
  };
}
