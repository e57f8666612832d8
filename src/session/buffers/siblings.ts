/** Pages files of an image that refer to each other. */

import { join } from 'node:path';
import { KfdError } from '../../errors.js';
import { pagesFileName } from '../../manifest/names.js';
import { fromNative, native, type PagesSummary } from '../../native.js';

/** Problems in the message. A hostile image has thousands. */
const shown = 5;

export interface NamedPages {
  readonly name: string;
  readonly summary: Pick<PagesSummary, 'siblings'>;
}

/**
 * Checks, by their indexes, that all references between pages files of the image in `directory` lead to a frame. Throws
 * E_IMAGE_CORRUPT with every file that has a broken reference.
 */
export function checkSiblings(directory: string, files: readonly NamedPages[]): void {
  if (files.every(({ summary }) => summary.siblings === 0)) return;
  const check = new (native().SiblingCheck)();
  for (const { name } of files) {
    try {
      check.addFile(join(directory, name));
    } catch (error) {
      throw fromNative(error, name);
    }
  }
  const problems = check
    .problems()
    .map(({ process, gpu, reason }) => `${pagesFileName(process, gpu)}: ${reason}`);
  if (problems.length === 0) return;
  const more = problems.length > shown ? `; and ${problems.length - shown} more` : '';
  throw new KfdError('E_IMAGE_CORRUPT', problems.slice(0, shown).join('; ') + more, {
    hint: 'the image was damaged or changed after the checkpoint; use another copy',
    details: { problems: problems.slice(0, 100) },
  });
}
