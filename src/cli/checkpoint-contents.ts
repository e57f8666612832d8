/** The folder for the GPU contents of a checkpoint: before it, and after one that has failed. */

import { mkdir, realpath } from 'node:fs/promises';
import { join } from 'node:path';
import { imagePrefix } from '../archive/names.js';
import { asKfdError, KfdError, printable } from '../errors.js';
import type { ListPages } from '../manifest/ancestors.js';
import { isDetached, pagesFilesOf } from '../manifest/elsewhere.js';
import { hasPagesFiles, readManifest, removePagesFiles } from '../manifest/image.js';
import type { Manifest } from '../manifest/schema.js';
import { openOwnFolder } from '../os/own-folder.js';
import { isWrittenTo } from '../session/control/folders.js';
import type { CommandContext } from './context.js';
import { containerOf } from './restore-target.js';

/**
 * The real path of the folder, which is made where it is missing. Throws E_USAGE for one with pages files, E_IO for one
 * that others may change or that cannot be made.
 */
export async function folderForContents(name: string): Promise<string> {
  await mkdir(name, { mode: 0o700 }).catch((error: unknown) => {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) {
      throw asKfdError(error, name);
    }
  });
  const path = await realpath(name);
  const folder = await openOwnFolder(path);
  try {
    if (!(await hasPagesFiles(folder.path))) return path;
  } finally {
    await folder.close();
  }
  throw new KfdError('E_USAGE', `${name}: has pages files already`, {
    hint: 'name a folder for this checkpoint alone',
  });
}

/** What a failed checkpoint was asked for. */
export interface Failed {
  readonly container: string;
  /** Options of `restore` that would bring the container back from its own folder. */
  readonly options: readonly string[];
  /** The folder of its contents, if it has one. */
  readonly contents: string | undefined;
  /** The folder of the sessions. */
  readonly sessions: string;
}

/**
 * Podman may have stopped the container before it failed to write the archive. Then the only checkpoint is in the
 * container's own folder, and podman alone cannot restore it. Only where this is known not to be so, contents are
 * removed: those of a session that was killed together with CRIU. One that lives may outlive podman, and seal.
 */
export async function afterFailure(
  { container, options, contents, sessions }: Failed,
  { run, err, native }: CommandContext,
): Promise<void> {
  const found = await containerOf(container, run).catch(() => undefined);
  if (found === undefined) return;
  const manifest = await manifestIn(join(found.path, imagePrefix));
  const isOurs =
    manifest !== undefined &&
    (contents === undefined || isOf(contents, manifest, native.listPages));
  if (isOurs) {
    const command = ['kfd-checkpoint', 'restore', ...options, container].join(' ');
    err(`if the container has stopped, this brings it back: ${printable(command)}\n`);
  } else if (contents !== undefined && !isWrittenTo(contents, sessions)) {
    await removePagesFiles(contents);
  }
}

/** undefined where there is none, or none that is sound: no restore would take it. */
async function manifestIn(image: string): Promise<Manifest | undefined> {
  try {
    return await readManifest(image);
  } catch {
    return undefined;
  }
}

/** Whether the folder has the pages files of the image. */
function isOf(folder: string, manifest: Manifest, list: ListPages): boolean {
  return (
    isDetached(manifest) &&
    pagesFilesOf(manifest).every(({ name, digest }) => {
      try {
        return list(join(folder, name)).root === digest.hex;
      } catch {
        return false;
      }
    })
  );
}
