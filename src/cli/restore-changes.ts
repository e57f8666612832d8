/** What `restore` changes in a checkpoint for this host: device numbers, and what the operator ignores. */

import { type Replacements, relocate } from '../archive/relocate.js';
import { KfdError } from '../errors.js';
import { numbers } from '../gpu/device-numbers.js';
import type { CommandContext } from './context.js';
import type { Restorability } from './restorability.js';

export interface Documents {
  readonly config: string | undefined;
  readonly spec: string | undefined;
  readonly tmpfs: ReadonlyMap<string, Buffer>;
}

/** Returns the files that must change, and prints the device numbers that change. */
export async function changes(
  path: string,
  { contents, placement, host, cdi }: Restorability,
  { config, spec, tmpfs }: Documents,
  { err }: CommandContext,
  manifest = contents.manifest,
): Promise<Replacements> {
  if (config === undefined || spec === undefined) {
    const missing = config === undefined ? 'config.dump' : 'spec.dump';
    throw new KfdError('E_IMAGE_CORRUPT', `${path}: ${missing} is missing`, {
      hint: 'use another copy of the archive',
    });
  }
  if (manifest === undefined || placement === undefined) {
    throw new KfdError('E_INTERNAL', `${path}: there is nothing to rewrite`);
  }
  for (const { what, from, to } of placement.moves) {
    err(`${what}: ${numbers(from)} becomes ${numbers(to)}\n`);
  }
  for (const { what, from } of placement.gone) err(`${what}: ${numbers(from)} goes\n`);
  return relocate({ manifest, config, spec, tmpfs }, placement, host, cdi);
}
