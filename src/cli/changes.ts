/** The edits of `configure`, planned before anything is written. */

import { realpath, rmdir, stat, unlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { defaultConfPath, hasOurMarks, withBlock, withoutBlock } from '../criu/default-conf.js';
import { actionScriptPath, launcherPath, loadedPlugin, stateFolder } from '../criu/state-folder.js';
import { isMissing, isReadOnly, KfdError } from '../errors.js';
import { replaceFile, syncFolder } from '../os/files.js';
import { hasBlock } from '../runtime/containerd-block.js';
import { containerdConfigPath, dropInPath } from '../runtime/containerd-config.js';
import { hookFilePath } from '../runtime/hook-file.js';
import { hookStopsCrio } from './crio.js';
import { type PackageParts, readPackage } from './package-parts.js';
import { type Roots, read } from './roots.js';

/** One file before and after, as Latin-1 text. Undefined: the file does not exist. */
export interface FileChange {
  /** Path on the host, without the root folder. */
  readonly path: string;
  readonly before: string | undefined;
  readonly after: string | undefined;
  /** Permissions of a file that only we write. Other files keep theirs, and new ones get 0644. */
  readonly mode?: number;
}

export interface Plan {
  /** In the order in which they are made. */
  readonly changes: readonly FileChange[];
  /** What the user has to do: sentences and lines of configuration. */
  readonly notes: readonly string[];
}

/**
 * The changes of `configure`, in order. A file comes before the files that name it. Throws E_CONFIG
 * when the installation is not complete, or when existing settings conflict.
 */
export async function planConfigure(roots: Roots): Promise<Plan> {
  const parts = await wholePackage(roots);
  const conf = await read(roots, defaultConfPath);
  const without = await hookStopsCrio(roots);
  const changes = [
    {
      path: hookFilePath,
      before: await read(roots, hookFilePath),
      after: without ? undefined : parts.hook,
    },
    ...(await copies(roots, parts)),
    { path: defaultConfPath, before: conf, after: withBlock(conf ?? '') },
  ];
  return { changes, notes: without ? [noHook] : [] };
}

const noHook =
  "podman gets no hook, because CRI-O of this host reads podman's folder of hooks and would not start: " +
  "archives of podman carry no GPU annotations. Another hooks_dir in CRI-O's configuration changes that.";

/**
 * The changes of `configure --refresh`: what an earlier release has written becomes what this one writes, in the same
 * order. An engine that is not set up stays so. containerd's lines name only paths, which stay. Throws as
 * planConfigure.
 */
export async function planRefresh(roots: Roots): Promise<FileChange[]> {
  const conf = await read(roots, defaultConfPath);
  const hook = await read(roots, hookFilePath);
  const isMarked = conf !== undefined && hasOurMarks(conf);
  const isNamed = isMarked || (await isForContainerd(roots));
  const hasCopies = (await noCopies(roots)).some(({ before }) => before !== undefined);
  if (hook === undefined && !isNamed && !hasCopies) return [];
  const parts = await wholePackage(roots);
  // CRI-O may have come after `configure`.
  const after = (await hookStopsCrio(roots)) ? undefined : parts.hook;
  return [
    ...(hook === undefined ? [] : [{ path: hookFilePath, before: hook, after }]),
    ...(isNamed || hasCopies ? await copies(roots, parts) : []),
    ...(isMarked ? [{ path: defaultConfPath, before: conf, after: withBlock(conf) }] : []),
  ];
}

/** Whether containerd was set up, by the drop-in or in its own file. */
async function isForContainerd(roots: Roots): Promise<boolean> {
  if ((await read(roots, dropInPath)) !== undefined) return true;
  return hasBlock((await read(roots, containerdConfigPath)) ?? '');
}

/** Throws E_CONFIG when the installation is not complete, and E_USAGE for a path with special characters. */
export async function wholePackage(roots: Roots): Promise<PackageParts> {
  assertPlainPrefix(roots.prefix);
  const parts = await readPackage(roots);
  if (parts.unusable.length === 0) return parts;
  throw new KfdError(
    'E_CONFIG',
    `${roots.prefix}: not a complete installation; missing or damaged: ${parts.unusable.join(', ')}`,
    { hint: 'install the package again, or name its folder with --prefix' },
  );
}

/** Copies the files that CRIU loads and runs. A file that names them must be written later. */
export async function copies(roots: Roots, parts: PackageParts): Promise<FileChange[]> {
  return [
    await ofOurs(roots, loadedPlugin, parts.plugin, 0o644),
    await ofOurs(roots, launcherPath, parts.launcher, 0o755),
    await ofOurs(roots, actionScriptPath, parts.action, 0o755),
  ];
}

/** Removes these copies. A file that names them must be removed earlier. */
export async function noCopies(roots: Roots): Promise<FileChange[]> {
  const paths = [loadedPlugin, actionScriptPath, launcherPath];
  return Promise.all(
    paths.map(async (path) => ({ path, before: await read(roots, path), after: undefined })),
  );
}

/** The changes of `configure --undo`. CRIU's lines are removed first, because they name files that follow. */
export async function planUndo(roots: Roots): Promise<FileChange[]> {
  const conf = await read(roots, defaultConfPath);
  const rest = conf === undefined ? undefined : withoutBlock(conf);
  const stillNeeded = await isForContainerd(roots);
  return [
    // Without other lines, the file is ours.
    { path: defaultConfPath, before: conf, after: rest === '' && conf !== '' ? undefined : rest },
    { path: hookFilePath, before: await read(roots, hookFilePath), after: undefined },
    ...(stillNeeded ? [] : await noCopies(roots)),
  ];
}

/** Makes one change. Throws E_IO. */
export async function apply(roots: Roots, change: FileChange): Promise<void> {
  const { before, after } = change;
  if (after !== undefined && before === after) return;
  const path = join(roots.root, change.path);
  try {
    // A symbolic link of the administrator stays.
    const target = before === undefined ? path : await realpath(path);
    if (after === undefined) {
      if (before !== undefined) {
        await unlink(target);
        await syncFolder(dirname(target));
      }
      await removeEmptyFolders(roots, dirname(change.path), before !== undefined);
      return;
    }
    const mode = change.mode ?? (before === undefined ? 0o644 : await modeOf(target));
    await replaceFile(target, Buffer.from(after, 'latin1'), mode);
  } catch (error) {
    const hint = isReadOnly(error)
      ? 'run as root, on a host with writable /etc, /usr and /var'
      : undefined;
    throw new KfdError('E_IO', `${change.path}: ${(error as Error).message}`, {
      cause: error,
      ...(hint !== undefined && { hint }),
    });
  }
}

/** A file with another owner or other permissions counts as missing, so it is written again. */
async function ofOurs(
  roots: Roots,
  path: string,
  after: string | undefined,
  mode: number,
): Promise<FileChange> {
  const text = await read(roots, path);
  const isSound = text !== undefined && (await isOurs(join(roots.root, path), mode));
  return { path, before: isSound ? text : undefined, after, mode };
}

/** Folders that `configure` makes for its files, where the host has none. Nobody misses an empty one. */
const madeFolders = [
  '/etc/criu',
  '/etc/containerd/conf.d',
  '/etc/containerd',
  '/usr/share/containers/oci/hooks.d',
  '/usr/share/containers/oci',
  '/usr/share/containers',
];

/**
 * Removes `folder` and its parents while they are empty. Our state folder is the last one; elsewhere they go only with
 * a file that we have removed.
 */
async function removeEmptyFolders(
  roots: Roots,
  folder: string,
  hadOurFile: boolean,
): Promise<void> {
  const isOurFolder = folder === stateFolder || folder.startsWith(`${stateFolder}/`);
  if (!isOurFolder && !(hadOurFile && madeFolders.includes(folder))) return;
  try {
    await rmdir(join(roots.root, folder));
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    // It has other files, or is where a file system is mounted.
    if (['ENOTEMPTY', 'EEXIST', 'EBUSY'].includes(code)) return;
    if (!isMissing(error)) throw error;
  }
  await removeEmptyFolders(roots, dirname(folder), hadOurFile);
}

async function isOurs(path: string, mode: number): Promise<boolean> {
  return (await modeOf(path)) === mode && (await stat(path)).uid === process.getuid?.();
}

async function modeOf(path: string): Promise<number> {
  return (await stat(path)).mode & 0o7777;
}

/** The prefix becomes part of scripts, in the hook file and in the state folder. */
function assertPlainPrefix(prefix: string): void {
  if (/^\/[\w./+-]*[\w+-]$/.test(prefix)) return;
  throw new KfdError('E_USAGE', `${prefix}: not an absolute path of letters, digits and ./_+-`, {
    hint: 'install to a plain path such as /usr/lib/kfd-checkpoint',
  });
}
