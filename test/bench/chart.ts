/** Bars with their spread, as SVG. */

import type { Spread } from './stats.js';

const rowHeight = 24;
const labelWidth = 190;
const barWidth = 520;

/** One bar per row, as long as its median; a line from its least to its greatest value. */
export function barChart(title: string, rows: readonly (Spread & { name: string })[]): string {
  const most = Math.max(1, ...rows.map(({ max }) => max));
  const x = (value: number) => (labelWidth + (value / most) * barWidth).toFixed(1);
  const bars = rows.map(({ name, median, min, max }, row) => {
    const y = 40 + row * rowHeight;
    const length = (Number(x(median)) - labelWidth).toFixed(1);
    const middle = y + 8;
    return [
      `<text x="${labelWidth - 8}" y="${y + 13}" text-anchor="end">${name}</text>`,
      `<rect x="${labelWidth}" y="${y}" width="${length}" height="16" fill="#4878a8"/>`,
      `<line x1="${x(min)}" x2="${x(max)}" y1="${middle}" y2="${middle}" stroke="#222" stroke-width="2"/>`,
      `<text x="${labelWidth + barWidth + 8}" y="${y + 13}">${median.toFixed(0)}</text>`,
    ].join('');
  });
  const height = 52 + rows.length * rowHeight;
  const width = labelWidth + barWidth + 70;
  const font = 'font-family="sans-serif" font-size="12"';
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" ${font}>`,
    '<rect width="100%" height="100%" fill="white"/>',
    `<text x="12" y="22" font-size="14">${title}</text>`,
    ...bars,
    '</svg>\n',
  ].join('\n');
}
