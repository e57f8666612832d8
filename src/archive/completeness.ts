/** Whether all GPU files of a checkpoint are present, as far as the headers show. */

import { createHash } from 'node:crypto';
import { KfdError } from '../errors.js';
import { hasFewObjects, isStateOf, type KfdObjects, kfdObjectsOf } from '../gpu/kfd-objects.js';
import type { Mismatch } from '../gpu/mismatch.js';
import { type SdmaWants, wantsOf } from '../gpu/sdma-wants.js';
import { isDetached } from '../manifest/elsewhere.js';
import { pagesPattern, renderStatePattern, statePattern } from '../manifest/names.js';
import { manifestLimits } from '../manifest/schema.js';
import { type CheckpointContents, collectState, readContents } from './contents.js';
import { imagePrefix } from './names.js';
import type { Visit, WalkOptions } from './walk.js';

export interface CompleteContents {
  readonly contents: CheckpointContents;
  /** Missing, cut or changed files; empty for a complete checkpoint. */
  readonly problems: readonly Mismatch[];
  /** Places that its processes need for SDMA queues; undefined: not known. */
  readonly wants: SdmaWants | undefined;
}

/** State files that are looked into, in all: more would be hundreds of thousands of objects. */
const maxKnownBytes = 64 << 20;
const maxKnownStates = 1024;

/**
 * Reads a checkpoint without the contents of buffers. For an uncompressed archive the time depends on the number of
 * entries, not on its size. `also` sees the other entries. Throws the errors of `readContents`.
 */
export async function readComplete(
  path: string,
  options: WalkOptions,
  also?: Visit,
): Promise<CompleteContents> {
  const digests = new Map<string, string>();
  const objects = new Map<string, KfdObjects>();
  let left = maxKnownBytes;
  const contents = await readContents(path, options, async (entry, content) => {
    const name = entry.name.startsWith(imagePrefix) ? entry.name.slice(imagePrefix.length) : '';
    if (!statePattern.test(name) && !renderStatePattern.test(name)) return also?.(entry, content);
    const { size } = entry;
    const isWanted = statePattern.test(name) && objects.size < maxKnownStates && size <= left;
    const hash = createHash('sha256');
    const bytes = await collectState(
      entry,
      content,
      manifestLimits.stateBytes,
      (head) => isWanted && isStateOf(size, head) && hasFewObjects(head),
      (chunk) => hash.update(chunk),
    );
    digests.set(name, hash.digest('hex'));
    const known = bytes && kfdObjectsOf(bytes);
    if (known === undefined) return;
    left -= size;
    objects.set(name, known);
  });
  const { manifest } = contents;
  const wants = manifest && wantsOf(manifest, (one) => objects.get(one.state_file));
  return { contents, problems: problemsOf(contents, digests), wants };
}

function problemsOf(
  { manifest, imageFiles, misplaced, path, contentsFolder }: CheckpointContents,
  digests: ReadonlyMap<string, string>,
): Mismatch[] {
  const obstacles = misplaced.map(
    (name): Mismatch => ({
      code: 'E_IMAGE_CORRUPT',
      message: `${name}: a link, folder or special file where a file of the checkpoint belongs`,
      hint: 'do not restore it: no checkpoint has such an entry',
    }),
  );
  if (manifest === undefined) {
    return imageFiles.size === 0 ? obstacles : [...obstacles, asMismatch(unsealed(path))];
  }
  // Without their folder the comparison with a host has one reason for all of them.
  const isUnknown = isDetached(manifest) && contentsFolder === undefined;
  const files = manifest.files.filter(({ name }) => !(isUnknown && pagesPattern.test(name)));
  const incomplete = files.flatMap(({ name, size, digest }): Mismatch[] => {
    const hint = 'use another copy of the archive, or take another checkpoint';
    const is = imageFiles.get(name);
    if (is === undefined) {
      return [{ code: 'E_IMAGE_MISSING', message: `${name}: not in the image`, hint }];
    }
    const corrupt = (reason: string): Mismatch[] => [
      { code: 'E_IMAGE_CORRUPT', message: `${name}: ${reason}`, hint },
    ];
    if (is !== size) return corrupt(`is ${is} bytes, was ${size} when sealed`);
    const sha256 = digests.get(name);
    if (sha256 !== undefined && sha256 !== digest.hex) return corrupt('does not match its digest');
    return [];
  });
  return [...obstacles, ...incomplete];
}

/** GPU files without a manifest: the checkpoint failed half way, or the manifest was lost. */
export function unsealed(path: string): KfdError {
  return new KfdError('E_IMAGE_UNSEALED', `${path}: its GPU state was never sealed`, {
    hint: 'the checkpoint did not finish; take another one',
  });
}

function asMismatch({ code, message, hint }: KfdError): Mismatch {
  return { code, message, hint: hint ?? '' };
}
