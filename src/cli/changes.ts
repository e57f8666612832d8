/** The edits of `configure`, planned before anything is written. */

import { access, constants, realpath, stat, unlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { defaultConfig, defaultConfigPath } from '../config.js';
import { criuSettings, defaultConfPath, withBlock, withoutBlock } from '../criu/default-conf.js';
import { isMissing, isReadOnly, KfdError } from '../errors.js';
import { readBounded, replaceFile, syncFolder } from '../os/files.js';
import { hookFilePath, renderHookFile } from '../runtime/hook-file.js';

/** One file before and after; Latin-1 text, undefined for a file that is not there. */
export interface FileChange {
  /** As the user of the host sees it, without the root. */
  readonly path: string;
  readonly before: string | undefined;
  readonly after: string | undefined;
}

export interface Place {
  /** Prepended to every path that is read or written; "/" is the host itself. */
  readonly root: string;
  /** Where the installation will be found at run time. */
  readonly prefix: string;
}

export const pluginName = 'kfd_checkpoint.so';

/**
 * What `configure` writes, in order: what names a file comes after the file. Throws E_CONFIG when
 * the installation is not complete, since a libdir that does not exist breaks every dump and
 * restore of the host, or when somebody else's settings are in the way.
 */
export async function planConfigure(place: Place): Promise<FileChange[]> {
  assertPlainPrefix(place.prefix);
  const settings = criuSettings(place.prefix);
  const template = `${place.prefix}/hooks/50-kfd-checkpoint.json`;
  const needed = [`${settings.libdir}/${pluginName}`, template];
  const programs = [settings.actionScript, `${place.prefix}/hooks/precreate`];
  const missing = [
    ...(await unusable(place, needed, constants.R_OK)),
    ...(await unusable(place, programs, constants.X_OK)),
  ];
  if (missing.length > 0) {
    throw new KfdError(
      'E_CONFIG',
      `${place.prefix}: not a complete installation: ${missing.join(', ')} missing`,
      {
        hint: 'install the package again, or name its folder with --prefix',
      },
    );
  }
  const config = await read(place, defaultConfigPath);
  const conf = await read(place, defaultConfPath);
  const hook = renderHookFile((await read(place, template)) ?? '', place.prefix);
  return [
    { path: defaultConfigPath, before: config, after: config ?? initialConfig() },
    { path: hookFilePath, before: await read(place, hookFilePath), after: hook },
    { path: defaultConfPath, before: conf, after: withBlock(conf ?? '', settings) },
  ];
}

/** What `configure --undo` writes: CRIU's lines go first, for they name files that go next. */
export async function planUndo(place: Place): Promise<FileChange[]> {
  const conf = await read(place, defaultConfPath);
  const config = await read(place, defaultConfigPath);
  const rest = conf === undefined ? undefined : withoutBlock(conf);
  return [
    // A file with nothing but our lines was made by us.
    { path: defaultConfPath, before: conf, after: rest === '' && conf !== '' ? undefined : rest },
    { path: hookFilePath, before: await read(place, hookFilePath), after: undefined },
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
  if (before === after) return;
  const path = join(place.root, change.path);
  try {
    // An administrator's symbolic link stays one.
    const target = before === undefined ? path : await realpath(path);
    if (after === undefined) {
      await unlink(target);
      await syncFolder(dirname(target));
      return;
    }
    const mode = before === undefined ? 0o644 : (await stat(target)).mode & 0o7777;
    await replaceFile(target, Buffer.from(after, 'latin1'), mode);
  } catch (error) {
    const hint = isReadOnly(error)
      ? 'run as root, on a host whose /etc and /usr can be written'
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

async function read(place: Place, path: string): Promise<string | undefined> {
  try {
    return (await readBounded(join(place.root, path), 1 << 20)).toString('latin1');
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

async function unusable(place: Place, paths: readonly string[], mode: number): Promise<string[]> {
  const missing: string[] = [];
  for (const path of paths) {
    await access(join(place.root, path), mode).catch(() => missing.push(path));
  }
  return missing;
}

/** CRIU splits its configuration at white space and knows no escape. */
function assertPlainPrefix(prefix: string): void {
  if (/^\/[\w./+-]*[\w+-]$/.test(prefix)) return;
  throw new KfdError('E_USAGE', `${prefix}: not an absolute path of letters, digits and ./_+-`, {
    hint: 'install to a plain path such as /usr/lib/kfd-checkpoint',
  });
}
