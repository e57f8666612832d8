/** What of an archive is believed, by whichever reader it is walked. */

import { KfdError } from '../errors.js';
import { plainName } from './names.js';

/** More than any real checkpoint; a hostile archive ends here. */
const limits = { entries: 65_536, entryBytes: 2 ** 50 } as const;

export class Entries {
  readonly #path: string;
  readonly #names = new Set<string>();
  readonly ignored: string[] = [];

  /** `path`: of the archive, for messages. */
  constructor(path: string) {
    this.#path = path;
  }

  /**
   * The plain name of a regular file; undefined for anything that is not to be believed. Throws
   * E_IMAGE_CORRUPT for a name that came before, and beyond the limits.
   */
  take(name: string, kind: 'file' | 'directory' | 'other', size: number): string | undefined {
    const plain = plainName(name);
    if (kind !== 'file' || plain === undefined || plain === '') {
      if (kind !== 'directory' && this.ignored.length < 20) this.ignored.push(name.slice(0, 200));
      return undefined;
    }
    // The engine would unpack the later one over what was looked at here.
    if (this.#names.has(plain)) {
      throw new KfdError('E_IMAGE_CORRUPT', `${this.#path}: ${plain} is there twice`);
    }
    this.#names.add(plain);
    if (this.#names.size > limits.entries || size > limits.entryBytes) {
      throw new KfdError(
        'E_IMAGE_CORRUPT',
        `${this.#path}: ${plain}: beyond the limits of an archive`,
      );
    }
    return plain;
  }
}
