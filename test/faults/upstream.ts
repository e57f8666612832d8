/** Failures of other programs that happen without this product, too. */

import type { Row } from './row.js';

interface Known {
  readonly when: (row: Row) => boolean;
  readonly problem: RegExp;
  /** Whose it is, and what shows it: a control without a GPU, or the source. */
  readonly reason: string;
}

const known: readonly Known[] = [];

/** Why this problem of the row is none of this product's; undefined if nothing says so. */
export function upstreamReason(row: Row, problem: string): string | undefined {
  return known.find((one) => one.when(row) && one.problem.test(problem))?.reason;
}
