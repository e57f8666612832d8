/** Medians and spreads. */

export interface Spread {
  readonly median: number;
  readonly min: number;
  readonly max: number;
  readonly count: number;
}

export function spread(values: readonly number[]): Spread {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  const upper = sorted[middle] ?? Number.NaN;
  const median = sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2;
  return {
    median,
    min: sorted[0] ?? Number.NaN,
    max: sorted.at(-1) ?? Number.NaN,
    count: sorted.length,
  };
}

/** "12.3 (11.9-13.0, n=5)" with `digits` after the point. */
export function show(values: readonly number[], digits = 2): string {
  const { median, min, max, count } = spread(values);
  return `${median.toFixed(digits)} (${min.toFixed(digits)}-${max.toFixed(digits)}, n=${count})`;
}

/** The ratio of each pair: samples at one place were taken one after the other. Throws RangeError without a partner. */
export function pairedRatios(ours: readonly number[], theirs: readonly number[]): number[] {
  if (ours.length !== theirs.length) throw new RangeError('a sample has no partner');
  return ours.map((value, i) => value / (theirs[i] ?? Number.NaN));
}
