/** Differences that an operator may ignore on purpose, with `ignore_mismatch` or `--ignore-mismatch`. */

import { KfdError } from '../errors.js';
import { type Difference, differences } from '../manifest/schema.js';
import type { Mismatch } from './mismatch.js';

export { type Difference, differences };

const isDifference = (name: string): name is Difference =>
  (differences as readonly string[]).includes(name);

/** "cpu,driver" of the command line. Throws E_USAGE. */
export function parseDifferences(text: string): Difference[] {
  const names = text.split(',');
  const known = names.filter(isDifference);
  if (known.length === names.length) return known;
  throw new KfdError('E_USAGE', `--ignore-mismatch: "${text}" is not a list of differences`, {
    hint: `name one or more of ${differences.join(', ')}, with commas`,
  });
}

/** What is left of all reasons against a restore, and what the operator decided to ignore. */
export interface Judged {
  readonly mismatches: readonly Mismatch[];
  readonly ignored: readonly Mismatch[];
}

export function judged(all: readonly Mismatch[], ignored: ReadonlySet<Difference>): Judged {
  return {
    mismatches: all.filter((mismatch) => !isIgnored(mismatch, ignored)),
    ignored: all.filter((mismatch) => isIgnored(mismatch, ignored)),
  };
}

export function isIgnored({ difference }: Mismatch, ignored: ReadonlySet<Difference>): boolean {
  return difference !== undefined && ignored.has(difference);
}

/** The kinds among `mismatches`, each once, in the order of `differences`. */
export function kindsOf(mismatches: readonly Mismatch[]): Difference[] {
  return differences.filter((kind) => mismatches.some(({ difference }) => difference === kind));
}
