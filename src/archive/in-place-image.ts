/**
 * Exchanging files of an image directory in a container's bundle, all of them or none. The new directory is made beside
 * the old one, with links to the files that stay, and takes its name.
 */

import {
  access,
  chmod,
  copyFile,
  link,
  mkdir,
  open,
  readdir,
  readlink,
  rename,
  rm,
  stat,
  symlink,
  writeFile,
} from 'node:fs/promises';
import { join } from 'node:path';
import { isMissing, isOtherMount, KfdError } from '../errors.js';
import { syncFolder } from '../os/files.js';
import { imagePrefix } from './names.js';
import type { Contents } from './rewrite.js';

const current = (bundle: string) => join(bundle, imagePrefix.slice(0, -1));
const next = (bundle: string) => join(bundle, '.kfd-checkpoint-next');
const last = (bundle: string) => join(bundle, '.kfd-checkpoint-last');

/** Finishes or undoes an exchange that was interrupted. Throws Node's error. */
export async function recoverImage(bundle: string): Promise<void> {
  await rm(next(bundle), { recursive: true, force: true });
  if (!(await exists(last(bundle)))) return;
  if (!(await exists(current(bundle)))) await rename(last(bundle), current(bundle));
  await rm(last(bundle), { recursive: true, force: true });
}

/**
 * Gives the image directory of `bundle` the files of `replacements` that belong into it. Files among them are moved,
 * or copied from another file system. Throws Node's error, E_INTERNAL; the image is whole then, the old or the new one.
 */
export async function exchangeImage(
  bundle: string,
  replacements: ReadonlyMap<string, Contents>,
): Promise<void> {
  const [old, made, kept] = [current(bundle), next(bundle), last(bundle)];
  await recoverImage(bundle);
  try {
    await mkdir(made, { mode: 0o700 });
    await linkAll(old, made, (name) => replacements.has(imagePrefix + name));
    for (const [name, contents] of replacements) {
      if (name.startsWith(imagePrefix)) {
        await put(join(made, name.slice(imagePrefix.length)), contents);
      }
    }
    await copyMode(old, made);
    await syncFolder(made);
    await rename(old, kept);
    await rename(made, old);
  } catch (error) {
    await recoverImage(bundle);
    throw error;
  }
  await syncFolder(bundle);
  await rm(kept, { recursive: true, force: true });
}

/** Makes `to` a folder with links to all of `from`, but what is to be left out. Folders and links are made anew. */
export async function linkAll(
  from: string,
  to: string,
  leaveOut: (name: string) => boolean,
): Promise<void> {
  for (const entry of await readdir(from, { withFileTypes: true })) {
    if (leaveOut(entry.name)) continue;
    const [source, target] = [join(from, entry.name), join(to, entry.name)];
    if (entry.isDirectory()) {
      await mkdir(target, { mode: 0o700 });
      await linkAll(source, target, () => false);
      await copyMode(source, target);
    } else if (entry.isSymbolicLink()) await symlink(await readlink(source), target);
    else await link(source, target);
  }
}

/** The mode given to mkdir() is subject to the umask of whoever started us. */
async function copyMode(from: string, to: string): Promise<void> {
  await chmod(to, (await stat(from)).mode & 0o777);
}

async function put(path: string, contents: Contents): Promise<void> {
  if (Buffer.isBuffer(contents)) await writeFile(path, contents, { flag: 'wx', mode: 0o600 });
  else if (contents.offset !== 0) {
    throw new KfdError('E_INTERNAL', `${contents.path}: is a part of a file`);
  } else await move(contents.path, path);
  const file = await open(path, 'r');
  try {
    await file.sync();
  } finally {
    await file.close();
  }
}

async function move(from: string, to: string): Promise<void> {
  try {
    await rename(from, to);
  } catch (error) {
    if (!isOtherMount(error)) throw error;
    await copyFile(from, to);
  }
}

async function exists(path: string): Promise<boolean> {
  try {
    await access(path);
    return true;
  } catch (error) {
    if (isMissing(error)) return false;
    throw error;
  }
}
