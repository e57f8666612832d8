/** Where `configure` and `check` look: a system below a folder, with an installation in it. */

import { join } from 'node:path';
import { isMissing } from '../errors.js';
import { readBounded } from '../os/files.js';

export interface Place {
  /** Prepended to every path that is read or written; "/" is the host itself. */
  readonly root: string;
  /** Where the installation will be found at run time. */
  readonly prefix: string;
}

/** Of any file read here, bytes; the largest is the plugin, of about one MiB. */
const maxFileBytes = 16 << 20;

/** A file as a Latin-1 string, which keeps every byte; undefined when it is not there. */
export async function read(place: Place, path: string): Promise<string | undefined> {
  try {
    return (await readBounded(join(place.root, path), maxFileBytes)).toString('latin1');
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}
