/** A folder that nobody can change but the user of this process. */

import { constants, promises } from 'node:fs';
import { asKfdError, isMissing, KfdError } from '../errors.js';

/** An open folder. `path` leads to it as long as it is open, whatever has its name by then. */
export interface OwnFolder {
  readonly path: string;
  /** The name that it was opened by. */
  readonly name: string;
  close(): Promise<void>;
}

const writableByOthers = 0o022;

/**
 * Opens a folder by its real path. Throws E_NOT_FOUND, also for what is no folder; E_IO for a path with a link in it,
 * and for a folder of another user or one that others may write to.
 */
export async function openOwnFolder(name: string): Promise<OwnFolder> {
  const flags = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;
  let handle: promises.FileHandle;
  try {
    handle = await promises.open(name, flags);
  } catch (error) {
    if (!isMissing(error)) throw asKfdError(error, name);
    throw new KfdError('E_NOT_FOUND', `${name}: no such folder`, { cause: error });
  }
  try {
    const path = `/proc/self/fd/${handle.fd}`;
    const fault = await faultOf(name, path, await handle.stat());
    if (fault !== undefined) {
      throw new KfdError('E_IO', `${name}: ${fault}`, {
        hint: 'name a folder that belongs to root, and that nobody else may write to',
      });
    }
    return { path, name, close: () => handle.close() };
  } catch (error) {
    await handle.close();
    throw error;
  }
}

async function faultOf(
  name: string,
  path: string,
  { uid, mode }: { readonly uid: number; readonly mode: number },
): Promise<string | undefined> {
  if ((await promises.realpath(path)) !== name) return 'not the real path of a folder';
  if (uid !== process.geteuid?.()) return 'belongs to another user';
  return (mode & writableByOthers) === 0 ? undefined : 'others may write to it';
}
