/** The edits of `configure`, planned before anything is written. */

import { realpath, rmdir, stat, unlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { defaultConfig, defaultConfigPath } from '../config.js';
import { defaultConfPath, withBlock, withoutBlock } from '../criu/default-conf.js';
import { actionScriptPath, launcherPath, loadedPlugin, stateFolder } from '../criu/state-folder.js';
import { isMissing, isReadOnly, KfdError } from '../errors.js';
import { replaceFile, syncFolder } from '../os/files.js';
import { dropInPath } from '../runtime/containerd-config.js';
import { hookFilePath } from '../runtime/hook-file.js';
import { type PackageParts, readPackage } from './package-parts.js';
import { type Place, read } from './place.js';

/** One file before and after; Latin-1 text, undefined for a file that is not there. */
export interface FileChange {
  /** As the user of the host sees it, without the root. */
  readonly path: string;
  readonly before: string | undefined;
  readonly after: string | undefined;
  /** Permissions of a file that is ours alone. Others keep theirs, new ones get 0644. */
  readonly mode?: number;
}

/**
 * What `configure` writes, in order: what names a file comes after the file. Throws E_CONFIG when
 * the installation is not complete or when somebody else's settings are in the way.
 */
export async function planConfigure(place: Place): Promise<FileChange[]> {
  const parts = await wholePackage(place);
  const config = await read(place, defaultConfigPath);
  const conf = await read(place, defaultConfPath);
  return [
    { path: defaultConfigPath, before: config, after: config ?? initialConfig() },
    { path: hookFilePath, before: await read(place, hookFilePath), after: parts.hook },
    ...(await copies(place, parts)),
    { path: defaultConfPath, before: conf, after: withBlock(conf ?? '') },
  ];
}

/** Throws E_CONFIG when the installation is not complete, E_USAGE when its path is not plain. */
export async function wholePackage(place: Place): Promise<PackageParts> {
  assertPlainPrefix(place.prefix);
  const parts = await readPackage(place);
  if (parts.unusable.length === 0) return parts;
  throw new KfdError(
    'E_CONFIG',
    `${place.prefix}: not a complete installation: missing or damaged: ${parts.unusable.join(', ')}`,
    { hint: 'install the package again, or name its folder with --prefix' },
  );
}

/** What CRIU loads and runs; who names it comes after it. */
export async function copies(place: Place, parts: PackageParts): Promise<FileChange[]> {
  return [
    await ofOurs(place, loadedPlugin, parts.plugin, 0o644),
    await ofOurs(place, launcherPath, parts.launcher, 0o755),
    await ofOurs(place, actionScriptPath, parts.action, 0o755),
  ];
}

/** The copies gone; who names them goes before. */
export async function noCopies(place: Place): Promise<FileChange[]> {
  const paths = [loadedPlugin, actionScriptPath, launcherPath];
  return Promise.all(
    paths.map(async (path) => ({ path, before: await read(place, path), after: undefined })),
  );
}

/** What `configure --undo` writes: CRIU's lines go first, for they name files that go next. */
export async function planUndo(place: Place): Promise<FileChange[]> {
  const conf = await read(place, defaultConfPath);
  const config = await read(place, defaultConfigPath);
  const rest = conf === undefined ? undefined : withoutBlock(conf);
  const stillNeeded = (await read(place, dropInPath)) !== undefined;
  return [
    // A file with nothing but our lines was made by us.
    { path: defaultConfPath, before: conf, after: rest === '' && conf !== '' ? undefined : rest },
    { path: hookFilePath, before: await read(place, hookFilePath), after: undefined },
    ...(stillNeeded ? [] : await noCopies(place)),
    // A configuration somebody edited is theirs.
    {
      path: defaultConfigPath,
      before: config,
      after: config === initialConfig() ? undefined : config,
    },
  ];
}

/** Carries out one change. Throws E_IO. */
export async function apply(place: Place, change: FileChange): Promise<void> {
  const { before, after } = change;
  if (after !== undefined && before === after) return;
  const path = join(place.root, change.path);
  try {
    // An administrator's symbolic link stays one.
    const target = before === undefined ? path : await realpath(path);
    if (after === undefined) {
      if (before !== undefined) {
        await unlink(target);
        await syncFolder(dirname(target));
      }
      await removeEmptyFolders(place, dirname(change.path));
      return;
    }
    const mode = change.mode ?? (before === undefined ? 0o644 : await modeOf(target));
    await replaceFile(target, Buffer.from(after, 'latin1'), mode);
  } catch (error) {
    const hint = isReadOnly(error)
      ? 'run as root, on a host whose /etc, /usr and /var can be written'
      : undefined;
    throw new KfdError('E_IO', `${change.path}: ${(error as Error).message}`, {
      cause: error,
      ...(hint !== undefined && { hint }),
    });
  }
}

function initialConfig(): string {
  return `${JSON.stringify(defaultConfig(), null, 2)}\n`;
}

/** A file of ours with another owner or other permissions counts as missing: it is written anew. */
async function ofOurs(
  place: Place,
  path: string,
  after: string | undefined,
  mode: number,
): Promise<FileChange> {
  const text = await read(place, path);
  const isSound = text !== undefined && (await isOurs(join(place.root, path), mode));
  return { path, before: isSound ? text : undefined, after, mode };
}

/** Removes `folder` and those above it, up to our own, as long as nothing is in them. */
async function removeEmptyFolders(place: Place, folder: string): Promise<void> {
  if (folder !== stateFolder && !folder.startsWith(`${stateFolder}/`)) return;
  try {
    await rmdir(join(place.root, folder));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOTEMPTY' || code === 'EEXIST') return;
    if (!isMissing(error)) throw error;
  }
  await removeEmptyFolders(place, dirname(folder));
}

async function isOurs(path: string, mode: number): Promise<boolean> {
  return (await modeOf(path)) === mode && (await stat(path)).uid === process.getuid?.();
}

async function modeOf(path: string): Promise<number> {
  return (await stat(path)).mode & 0o7777;
}

/** The prefix becomes part of the scripts in the hook file and in the state folder. */
function assertPlainPrefix(prefix: string): void {
  if (/^\/[\w./+-]*[\w+-]$/.test(prefix)) return;
  throw new KfdError('E_USAGE', `${prefix}: not an absolute path of letters, digits and ./_+-`, {
    hint: 'install to a plain path such as /usr/lib/kfd-checkpoint',
  });
}
