/** Comparing text with a file of test/fixtures. `GOLDEN=write node --test FILE` writes the file instead. */

import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fixtures } from './paths.js';

/** `changing`: what differs from run to run, and the word that stands for it in the file. */
export function assertGolden(
  text: string,
  name: string,
  changing: Readonly<Record<string, string>> = {},
): void {
  const steady = Object.entries(changing).reduce(
    (rest, [word, part]) => rest.replaceAll(part, word),
    text,
  );
  const path = join(fixtures, name);
  if (process.env['GOLDEN'] === 'write') writeFileSync(path, steady);
  assert.equal(steady, readFileSync(path, 'utf8'), name);
}
