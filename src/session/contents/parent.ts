/** The contents of a checkpoint's parent. */

import { join } from 'node:path';
import { commandFolderName } from '../../criu/command-folder.js';
import { decodeParentFile, parentFileName } from '../../criu/parent-folder.js';
import { runFolder } from '../../criu/state-folder.js';
import { asKfdError } from '../../errors.js';
import { lineage } from '../../os/ancestors.js';
import { readTextIfAny } from '../../os/files.js';

/** The largest list of a parent's files, bytes. */
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

  /** The path of the parent's index with the name of this pages file. */
  optionFor(name: string): { parent?: string } {
    return this.#files.has(name) ? { parent: join(this.#folder, name) } : {};
  }
}

/**
 * The parent given to `command`, or to another one that started CRIU `criuPid`; undefined without one. `command`: the
 * name of a process. Throws E_IO when the parent cannot be read: a requested one is never left out silently.
 */
export async function parentIndexes(
  criuPid: number,
  command?: string,
  run = runFolder,
): Promise<ParentIndexes | undefined> {
  const others = command === undefined ? [] : [command];
  for (const name of [...others, ...lineage(criuPid)]) {
    const folder = join(run, commandFolderName('parent', name));
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
