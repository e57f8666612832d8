/** What our reader finds in an archive, and whether another reader finds a GPU state that ours does not know of. */

import { createHash } from 'node:crypto';
import { posix } from 'node:path';
import { imagePrefix, smallFiles } from '../../../src/archive/names.js';
import { walkArchive } from '../../../src/archive/tar.js';
import { KfdError } from '../../../src/errors.js';
import { imageFilePattern, manifestName } from '../../../src/manifest/names.js';
import { zstdProgram } from '../../unit/archive-builder.js';
import type { Found } from './peers.js';

export interface Own {
  readonly found: readonly Found[];
  /** Names of links and folders where a file of a checkpoint belongs, which `check` refuses. */
  readonly misplaced: readonly string[];
  /** The reason for a refusal of the whole archive. */
  readonly refused: string | undefined;
}

/** Milliseconds for one small archive on a busy machine. */
const deadlineMs = 10_000;

/** Throws what is no refusal, and when the reader does not end: both are faults of ours. */
export async function askOurs(path: string): Promise<Own> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error('the reader does not end')), deadlineMs);
  });
  try {
    return await Promise.race([read(path), late]);
  } finally {
    clearTimeout(timer);
  }
}

async function read(path: string): Promise<Own> {
  const found: Found[] = [];
  try {
    const { misplaced } = await walkArchive(
      path,
      { zstdDecoder: zstdProgram },
      async ({ name }, content) => {
        const hash = createHash('sha256');
        for await (const chunk of content) hash.update(chunk);
        found.push({ name, sha256: hash.digest('hex') });
      },
    );
    return { found, misplaced, refused: undefined };
  } catch (error) {
    if (!(error instanceof KfdError) || error.code !== 'E_IMAGE_CORRUPT') throw error;
    const refused = error.message.slice(error.message.indexOf(': ') + 2);
    return { found: [], misplaced: [], refused };
  }
}

/** Where an engine unpacks an entry to, relative to the archive's top. */
function placeOf(name: string): string {
  const text = name.split('\0', 1)[0] ?? '';
  return posix.normalize(`/${text}`).replace(/\/$/, '').slice(1);
}

/** Files of ours, and those that decide how an engine restores. */
function matters(place: string): boolean {
  if (place === smallFiles.config || place === smallFiles.spec) return true;
  if (!place.startsWith(imagePrefix)) return false;
  const name = place.slice(imagePrefix.length);
  return name === manifestName || imageFilePattern.test(name);
}

/**
 * The files of another reader that ours does not know of, or knows with other bytes. An archive that ours refuses has
 * none; neither has a name that ours reports as misplaced.
 */
export function hiddenFrom(own: Own, other: readonly Found[]): Found[] {
  if (own.refused !== undefined) return [];
  const misplaced = new Set(own.misplaced.map(placeOf));
  return other.filter(({ name, sha256 }) => {
    const place = placeOf(name);
    if (!matters(place) || misplaced.has(place)) return false;
    return !own.found.some((file) => file.name === place && file.sha256 === sha256);
  });
}
