/** The entries of an archive that are trusted, for all readers. */

import { KfdError } from '../errors.js';
import { plainName } from './names.js';

/** Far more than in any real checkpoint: a bound for hostile archives. */
const limits = { entries: 65_536, entryBytes: 2 ** 50 } as const;

export class Entries {
  readonly #path: string;
  readonly #names = new Set<string>();
  readonly ignored: string[] = [];

  /** `path`: the archive's path, for messages. */
  constructor(path: string) {
    this.#path = path;
  }

  /**
   * The plain name of a regular file; undefined for an entry that is not trusted. Throws E_IMAGE_CORRUPT for a second
   * entry with this name, and beyond the limits.
   */
  take(name: string, kind: 'file' | 'directory' | 'other', size: number): string | undefined {
    const plain = plainName(name);
    if (kind !== 'file' || plain === undefined || plain === '') {
      if (kind !== 'directory' && this.ignored.length < 20) this.ignored.push(name.slice(0, 200));
      return undefined;
    }
    // The container engine would unpack the later entry over the entry that was checked here.
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
