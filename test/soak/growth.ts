/** Whether what was measured in each cycle grows over the cycles. */

import { spread } from '../bench/stats.js';
import type { Sample } from './sample.js';

export interface Growth {
  readonly name: string;
  /** Medians of the first and of the last fifth of the cycles. */
  readonly first: number;
  readonly last: number;
  /** How far single cycles are from these medians: half of them are within it. */
  readonly noise: number;
  readonly grows: boolean;
}

/** The first cycles open what is opened once. */
const settling = 3;

/**
 * Of each value that all samples have. A value grows when its last median is above the first one by more than the
 * noise. Fewer than ten settled cycles show nothing: then none grows.
 */
export function growth(samples: readonly Sample[]): Growth[] {
  const settled = samples.slice(Math.min(settling, samples.length >> 1));
  const names = Object.keys(settled[0] ?? {});
  const part = Math.max(1, Math.floor(settled.length / 5));
  return names.map((name) => {
    const values = settled.map((sample) => sample[name] ?? Number.NaN);
    const [begin, end] = [values.slice(0, part), values.slice(-part)];
    const [first, last] = [spread(begin).median, spread(end).median];
    const noise = 2 * Math.max(deviation(begin, first), deviation(end, last));
    return { name, first, last, noise, grows: part > 1 && !(last - first <= noise) };
  });
}

/** The median distance from `middle`. */
function deviation(values: readonly number[], middle: number): number {
  return spread(values.map((value) => Math.abs(value - middle))).median;
}

export function growthTable(found: readonly Growth[]): string {
  const show = (value: number) =>
    Number.isInteger(value) ? String(value) : value.toFixed(Math.abs(value) < 100 ? 2 : 0);
  const rows = found.map(({ name, first, last, noise, grows }) =>
    [
      `  ${name.padEnd(28)}`,
      show(first).padStart(14),
      show(last).padStart(14),
      `  noise ${show(noise)}`,
      grows ? '  GROWS' : '',
    ].join(''),
  );
  return `${rows.join('\n')}\n`;
}
