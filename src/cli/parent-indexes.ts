/** The parent of a checkpoint, read before anything is paused: its indexes are what a session needs. */

import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { keepContentsIndexes } from '../archive/contents-indexes.js';
import { type VerifyOptions, verifyCheckpoint } from '../archive/verify.js';
import { commandFolderName } from '../criu/command-folder.js';
import { type ParentFile, parentFileName } from '../criu/parent-folder.js';
import { KfdError } from '../errors.js';
import { contentsMissing } from '../gpu/compare.js';
import { isDetached } from '../manifest/elsewhere.js';
import { archiveNamePattern } from '../manifest/names.js';
import { processName } from '../os/ancestors.js';
import type { CommandContext } from './context.js';
import { progressOf } from './progress.js';
import { failOnProblems } from './verify.js';

/** Where the contents of the parent are: in an archive, or in a folder of their own. */
export interface Parent {
  readonly path: string;
  readonly isFolder: boolean;
}

/** The name by which a manifest calls the parent. Throws E_USAGE. */
export function recordedName({ path, isFolder }: Parent): string {
  const name = basename(resolve(path));
  if (archiveNamePattern.test(name)) return name;
  throw new KfdError(
    'E_USAGE',
    `${path}: this ${isFolder ? 'name' : 'file name'} cannot be recorded`,
    {
      hint: 'rename it: restores look for the parent by its name',
    },
  );
}

/**
 * Reads the whole parent and keeps the indexes of its contents in `folder`. An error comes before anything is paused:
 * - E_IMAGE_CORRUPT and E_IMAGE_UNSEALED: the parent is not sound
 * - E_IMAGE_MISSING: the parent has no GPU contents, or has them elsewhere
 * - E_UNSUPPORTED_STATE: the parent has no digests
 */
async function keepIndexes(
  parent: Parent,
  folder: string,
  context: CommandContext,
  quiet: boolean,
): Promise<ParentFile> {
  const { native, signal } = context;
  const { path, isFolder } = parent;
  const progress = progressOf(context);
  const options = {
    zstdDecoder: native.zstdDecoder,
    verifier: native.verifier(),
    keepIndexes: folder,
    signal,
    ...(!quiet && { onProgress: progress.update }),
  };
  const read = isFolder ? indexesOfFolder(path, options) : indexesOfArchive(path, options);
  const pages = await read.finally(progress.end);
  if (pages.length === 0) {
    throw new KfdError('E_IMAGE_MISSING', `${path}: has no GPU contents`, {
      hint: isFolder
        ? 'name the folder of the contents of an earlier checkpoint'
        : 'name an archive of the same container with GPU state',
    });
  }
  const withoutDigests = pages.find(({ digests }) => digests === false);
  if (withoutDigests !== undefined) {
    throw new KfdError(
      'E_UNSUPPORTED_STATE',
      `${path}: ${withoutDigests.name} has no digests, so its contents cannot be compared`,
      { hint: 'take a checkpoint without a parent; that one can be the parent of later ones' },
    );
  }
  return { archive: recordedName(parent), files: pages.map(({ name }) => name) };
}

/**
 * Calls `work` while sessions find the indexes of the parent, with the names of its files; none without a parent.
 * Throws as `keepIndexes`.
 */
export async function withParent<Result>(
  run: string,
  parent: Parent | undefined,
  context: CommandContext,
  quiet: boolean,
  work: (files: readonly string[]) => Promise<Result>,
): Promise<Result> {
  if (parent === undefined) return work([]);
  const folder = join(run, commandFolderName('parent', processName(process.pid)));
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  try {
    const list = await keepIndexes(parent, folder, context, quiet);
    writeFileSync(join(folder, parentFileName), JSON.stringify(list), { mode: 0o600 });
    return await work(list.files);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

interface Indexed {
  readonly name: string;
  readonly digests?: boolean;
}

type Options = VerifyOptions & { readonly keepIndexes: string };

async function indexesOfArchive(path: string, options: Options): Promise<Indexed[]> {
  const report = await verifyCheckpoint(path, options);
  const { manifest } = report.contents;
  if (manifest !== undefined && isDetached(manifest)) {
    throw new KfdError('E_IMAGE_MISSING', `${path}: ${contentsMissing(manifest).message}`, {
      hint: 'name that folder with --parent-contents, in place of --parent',
    });
  }
  failOnProblems(path, report);
  return report.files.filter(({ frames }) => frames !== undefined);
}

async function indexesOfFolder(path: string, options: Options): Promise<Indexed[]> {
  const kept = await keepContentsIndexes(path, options);
  return kept.map(({ name, listing }) => ({ name, digests: listing.digests }));
}
