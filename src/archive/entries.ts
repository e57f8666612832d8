/** The entries of an archive that are trusted, for all readers. */

import { KfdError } from '../errors.js';
import { isOfCheckpoint, isOurFile, parentLink, plainName } from './names.js';
import { damaged } from './tar-bytes.js';
import type { EntryKind } from './tar-entries.js';

/** Far more than in any real checkpoint: bounds for hostile archives. */
const limits = { entries: 65_536, depth: 16, nameChars: 4 << 20 } as const;
/** How many names are kept for reports. */
const maxNames = 20;

export class Entries {
  readonly #path: string;
  readonly #prefix: string;
  readonly #kinds = new Map<string, EntryKind>();
  /** Folders that names imply. */
  readonly #folders = new Set<string>();
  #nameChars = 0;
  /** Links, special files and folders where a file of a checkpoint belongs, at most 20. */
  readonly misplaced: string[] = [];
  /** Whether there is a link to the images of a pre-dump. */
  hasParentLink = false;

  /** `path`: the archive's path, for messages. `prefix`: the folder whose contents the archive is. */
  constructor(path: string, prefix = '') {
    this.#path = path;
    this.#prefix = prefix;
  }

  /**
   * The plain name of a regular file; undefined for any other entry. Throws E_IMAGE_CORRUPT beyond the limits, for a
   * name that leaves the archive, and for an entry that takes the place of another when the archive is unpacked.
   */
  take(name: string, kind: EntryKind): string | undefined {
    const inside = plainName(name);
    const shown = name.slice(0, 200);
    if (inside === undefined) throw this.#corrupt(`${shown}: a name that leaves the archive`);
    if (inside === '') {
      if (kind !== 'folder') throw this.#corrupt(`${shown}: a name of the archive itself`);
      return undefined;
    }
    const plain = this.#prefix + inside;
    const before = this.#kinds.get(plain);
    if (before !== undefined && !(before === 'folder' && kind === 'folder')) {
      throw this.#corrupt(`${plain} is there twice`);
    }
    this.#kinds.set(plain, kind);
    this.#nameChars += plain.length;
    if (this.#kinds.size > limits.entries || this.#nameChars > limits.nameChars) {
      throw this.#corrupt('more entries than any checkpoint has');
    }
    if (kind !== 'folder' && this.#folders.has(plain)) {
      throw this.#corrupt(`${plain} takes the place of a folder`);
    }
    this.#takeFolders(plain);
    if (kind === 'file') return plain;
    if (kind !== 'folder' && plain === parentLink) this.hasParentLink = true;
    const isMisplaced = kind === 'folder' ? isOurFile(plain) : isOfCheckpoint(plain);
    if (isMisplaced && this.misplaced.length < maxNames) this.misplaced.push(shown);
    return undefined;
  }

  #takeFolders(plain: string): void {
    if (plain.split('/', limits.depth + 1).length > limits.depth) {
      throw this.#corrupt(`${plain.slice(0, 200)}: more folders than any checkpoint has`);
    }
    for (let end = plain.lastIndexOf('/'); end > 0; end = plain.lastIndexOf('/', end - 1)) {
      const folder = plain.slice(0, end);
      if (this.#folders.has(folder)) return;
      this.#folders.add(folder);
      const kind = this.#kinds.get(folder);
      if (kind !== undefined && kind !== 'folder') {
        throw this.#corrupt(`${plain.slice(0, 200)}: lies below a file or link`);
      }
    }
  }

  #corrupt(reason: string): KfdError {
    return new KfdError('E_IMAGE_CORRUPT', `${this.#path}: ${reason}`, { hint: damaged });
  }
}
