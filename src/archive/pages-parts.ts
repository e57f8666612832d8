/** Random access to the pages files of a checkpoint, in the archive or unpacked. */

import { createWriteStream } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { FilePart } from '../addon.js';
import { pagesPattern } from '../manifest/names.js';
import { type CheckpointContents, readContents } from './contents.js';
import { imagePrefix } from './names.js';
import type { WalkOptions } from './walk.js';

export interface CheckpointWithPages {
  readonly contents: CheckpointContents;
  /** By name in the image directory. */
  readonly pages: ReadonlyMap<string, FilePart>;
}

/**
 * Reads a checkpoint. Pages files of a compressed archive are unpacked into `folder`, under names that begin with
 * `prefix`. Throws the errors of `readContents`, and Node's error.
 */
export async function readWithPages(
  path: string,
  options: WalkOptions,
  folder: string,
  prefix: string,
): Promise<CheckpointWithPages> {
  const pages = new Map<string, FilePart>();
  const contents = await readContents(path, options, async (entry, content) => {
    const name = entry.name.startsWith(imagePrefix) ? entry.name.slice(imagePrefix.length) : '';
    if (!pagesPattern.test(name)) return;
    if (entry.place !== undefined) {
      pages.set(name, entry.place);
      return;
    }
    const unpacked = join(folder, `${prefix}${name}`);
    await pipeline(
      Readable.from(content),
      createWriteStream(unpacked, { flags: 'wx', mode: 0o600 }),
    );
    pages.set(name, { path: unpacked, offset: 0, size: entry.size });
  });
  return { contents, pages };
}
