/** What the parent of a checkpoint has, where the checkpoint was given one. */

import { join } from 'node:path';
import { decodeParentFile, parentFileName, parentFolderName } from '../../criu/parent-folder.js';
import { runFolder } from '../../criu/state-folder.js';
import { asKfdError } from '../../errors.js';
import { lineage } from '../../os/ancestors.js';
import { readTextIfAny } from '../../os/files.js';

/** Bytes of the largest list of a parent's files. */
const maxListBytes = 4 << 20;

export class ParentIndexes {
  /** Name of the parent's archive, without folder. */
  readonly archive: string;
  readonly #folder: string;
  readonly #files: ReadonlySet<string>;

  constructor(folder: string, archive: string, files: readonly string[]) {
    this.archive = archive;
    this.#folder = folder;
    this.#files = new Set(files);
  }

  /** For the drain of a pages file: the index of the one that had its name. */
  optionFor(name: string): { parent?: string } {
    return this.#files.has(name) ? { parent: join(this.#folder, name) } : {};
  }
}

/**
 * The parent given to the command that CRIU with pid `criuPid` runs for; undefined when there is none. Throws E_IO for
 * one that cannot be read: what was asked for is not left out silently.
 */
export async function parentIndexes(
  criuPid: number,
  run = runFolder,
): Promise<ParentIndexes | undefined> {
  for (const name of lineage(criuPid)) {
    const folder = join(run, parentFolderName(name));
    try {
      const text = await readTextIfAny(join(folder, parentFileName), maxListBytes);
      if (text === undefined) continue;
      const { archive, files } = decodeParentFile(text);
      return new ParentIndexes(folder, archive, files);
    } catch (error) {
      throw asKfdError(error, `${folder}: what the parent has`);
    }
  }
  return undefined;
}
