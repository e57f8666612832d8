/** What was measured over the cycles, as SVG: a small picture for each value. */

import { spread } from '../bench/stats.js';
import type { Sample } from './sample.js';

const columns = 3;
const cell = { width: 320, height: 130 };
const plot = { left: 12, top: 40, width: 290, height: 70 };

/** One page. Each picture has its own scale, which its title gives: the least and the greatest value. */
export function linePictures(title: string, samples: readonly Sample[]): string {
  const names = Object.keys(samples[0] ?? {});
  const pictures = names.map((name, i) => {
    const x = (i % columns) * cell.width;
    const y = 36 + Math.floor(i / columns) * cell.height;
    const values = samples.map((sample) => sample[name] ?? Number.NaN);
    return `<g transform="translate(${x} ${y})">${picture(name, values)}</g>`;
  });
  const width = columns * cell.width;
  const height = 36 + Math.ceil(names.length / columns) * cell.height;
  const font = 'font-family="sans-serif" font-size="12"';
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" ${font}>`,
    '<rect width="100%" height="100%" fill="white"/>',
    `<text x="12" y="22" font-size="14">${title}</text>`,
    ...pictures,
    '</svg>\n',
  ].join('\n');
}

function picture(name: string, values: readonly number[]): string {
  const { min, max } = spread(values);
  const range = max - min || 1;
  const step = plot.width / Math.max(1, values.length - 1);
  const points = values.map((value, i) => {
    const x = plot.left + i * step;
    const y = plot.top + plot.height * (max === min ? 0.5 : 1 - (value - min) / range);
    return `${x.toFixed(1)},${y.toFixed(1)}`;
  });
  const { left, top, width, height } = plot;
  return [
    `<text x="${left}" y="${top - 18}">${name}</text>`,
    `<text x="${left}" y="${top - 4}" fill="#666">${short(min)} to ${short(max)}</text>`,
    `<rect x="${left}" y="${top}" width="${width}" height="${height}" fill="none" stroke="#ccc"/>`,
    `<polyline points="${points.join(' ')}" fill="none" stroke="#4878a8"/>`,
  ].join('');
}

function short(value: number): string {
  return Number.isInteger(value) ? value.toLocaleString('en') : value.toFixed(2);
}
