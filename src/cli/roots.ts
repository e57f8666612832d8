/** The root folder and the installation folder that `configure` and `check` work with. */

import { join } from 'node:path';
import { isMissing, KfdError } from '../errors.js';
import { readBounded } from '../os/files.js';

export interface Roots {
  /** Prepended to every path that is read or written. "/" is the host itself. */
  readonly root: string;
  /** Folder of the installation at run time. */
  readonly prefix: string;
}

/** Longest file, bytes. The plugin is the largest one, with about one MiB. */
const maxFileBytes = 16 << 20;

/**
 * Reads a file as a Latin-1 string, which keeps every byte. Undefined when the file does not exist. Throws
 * E_CONFIG when it is not a regular file or too large, and Node's error otherwise.
 */
export async function read(roots: Roots, path: string): Promise<string | undefined> {
  try {
    return (await readBounded(join(roots.root, path), maxFileBytes)).toString('latin1');
  } catch (error) {
    if (isMissing(error)) return undefined;
    if (error instanceof KfdError) {
      throw new KfdError('E_CONFIG', error.message, {
        cause: error,
        hint: 'move it away, and run the command again',
      });
    }
    throw error;
  }
}

/** As `read`, as text without a byte order mark. */
export async function readUtf8(roots: Roots, path: string): Promise<string | undefined> {
  const latin1 = await read(roots, path);
  return latin1 === undefined ? undefined : new TextDecoder().decode(Buffer.from(latin1, 'latin1'));
}
