/** The contents in a folder, read as the parent of a later checkpoint. */

import { join } from 'node:path';
import type { PagesListing } from '../addon/images.js';
import { KfdError } from '../errors.js';
import { pagesFileName } from '../manifest/names.js';
import { walkContents } from './directory.js';
import { imagePrefix } from './names.js';
import type { VerifyOptions } from './verify.js';

/** A pages file in a folder of contents: sound, with an index that was kept. */
export interface KeptIndex {
  readonly name: string;
  readonly listing: PagesListing;
}

type KeepOptions = VerifyOptions & { readonly keepIndexes: string };

/**
 * Reads all pages files in the folder `path`, and keeps their indexes. No manifest says what belongs there: a file that
 * another one refers to must be there. Throws E_IMAGE_CORRUPT, and as `walkContents`.
 */
export async function keepContentsIndexes(
  path: string,
  { verifier, keepIndexes, onProgress, ...walk }: KeepOptions,
): Promise<KeptIndex[]> {
  const corrupt = (name: string, reason: string, cause?: unknown) =>
    new KfdError('E_IMAGE_CORRUPT', `${path}: ${name}: ${reason}`, {
      cause,
      hint: 'take a checkpoint without this parent',
    });
  const siblings = verifier.siblingCheck();
  const kept: KeptIndex[] = [];
  const misplaced = await walkContents(path, walk, async (entry, content) => {
    const name = entry.name.slice(imagePrefix.length);
    try {
      const check = verifier.pagesCheck(siblings, join(keepIndexes, name));
      let done = 0;
      for await (const chunk of content) {
        check.feed(chunk);
        done += chunk.length;
        onProgress?.(name, done, entry.size);
      }
      kept.push({ name, listing: check.finish() });
    } catch (error) {
      // An interruption is no damage.
      if (walk.signal?.aborted === true) throw error;
      throw corrupt(name, error instanceof Error ? error.message : String(error), error);
    }
  });
  const [link] = misplaced;
  if (link !== undefined) throw corrupt(link.slice(imagePrefix.length), 'not a plain file');
  const wrong = kept.find(
    ({ name, listing }) => pagesFileName(listing.process, listing.gpu) !== name,
  );
  if (wrong !== undefined) throw corrupt(wrong.name, 'belongs to another process or GPU');
  const [problem] = siblings.problems();
  if (problem !== undefined) {
    throw corrupt(pagesFileName(problem.process, problem.gpu), problem.reason);
  }
  return kept;
}
