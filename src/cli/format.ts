/** The option `--format`, and text for people and programs: sizes, times, tables, trees, JSON. */

import { Option } from 'commander';
import { printable } from '../errors.js';

/** `--format` of a verb. The first form is the default. */
export function formatOption(...forms: readonly ['table' | 'text', ...string[]]): Option {
  return new Option('--format <format>', 'output format').choices(forms).default(forms[0]);
}

/** Whether a command line asks for JSON, also one that cannot be parsed: its error is JSON, too. */
export function isJson(args: readonly string[]): boolean {
  const at = args.findLastIndex((word) => /^--format(=|$)/.test(word));
  const word = args[at];
  return word === '--format' ? args[at + 1] === 'json' : word === '--format=json';
}

/** Binary units with one decimal, as in checkpointctl. Below 1 KiB, whole bytes. */
export function size(bytes: number): string {
  const units = ['KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  if (bytes < 1024) return `${bytes} B`;
  let value = bytes / 1024;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${value.toFixed(1)} ${units[unit]}`;
}

export function duration(us: number): string {
  if (us < 1000) return `${Math.round(us)} us`;
  return us < 1e6 ? `${(us / 1000).toFixed(1)} ms` : `${(us / 1e6).toFixed(2)} s`;
}

/** Decimal units, which are usual for links and disks. */
export function rate(bytesPerSecond: number): string {
  return `${(bytesPerSecond / 1e6).toFixed(1)} MB/s`;
}

/** Columns under upper-case heads, two spaces apart, as in podman. */
export function table(heads: readonly string[], rows: readonly (readonly string[])[]): string {
  const cells = [heads, ...rows].map((row) => row.map(printable));
  const widths = heads.map((_, column) =>
    cells.reduce((width, row) => Math.max(width, (row[column] ?? '').length), 0),
  );
  return cells
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .map((line) => `${line}\n`)
    .join('');
}

export interface TreeNode {
  readonly text: string;
  readonly children?: readonly TreeNode[];
}

export function tree({ text, children = [] }: TreeNode, indent = ''): string {
  const lines = children.map((child, index) => {
    const last = index === children.length - 1;
    const rest = tree(child, `${indent}${last ? '    ' : '│   '}`);
    return `${indent}${last ? '└── ' : '├── '}${rest}`;
  });
  return `${printable(text)}\n${lines.join('')}`;
}

/** Characters that take two columns of a terminal: East Asian wide ones (Unicode, UAX 11) and emoji. */
const wide = new RegExp(
  '[\\u1100-\\u115f\\u2e80-\\u303e\\u3041-\\ua4cf\\uac00-\\ud7a3\\uf900-\\ufaff\\ufe30-\\ufe6f' +
    '\\uff00-\\uff60\\uffe0-\\uffe6\\u{1f300}-\\u{1faff}\\u{20000}-\\u{3fffd}]',
  'u',
);

function charColumns(char: string): number {
  if (/\p{M}/u.test(char)) return 0; // drawn over the character before it
  return wide.test(char) ? 2 : 1;
}

/** How many columns of a terminal a text takes. */
export function columnsOf(text: string): number {
  return [...text].reduce((sum, char) => sum + charColumns(char), 0);
}

/** The text, or its beginning and "..." when it takes more than `columns`. */
export function fitted(text: string, columns: number): string {
  if (columnsOf(text) <= columns) return text;
  const mark = '...'.slice(0, Math.max(0, columns));
  let kept = '';
  let used = mark.length;
  for (const char of text) {
    used += charColumns(char);
    if (used > columns) break;
    kept += char;
  }
  return kept + mark;
}

/** A document. Control characters are escaped, also those that JSON allows in text. */
export function json(value: unknown): string {
  return escaped(JSON.stringify(value, null, 2));
}

/** The same in one line. */
export function jsonLine(value: unknown): string {
  return escaped(JSON.stringify(value));
}

function escaped(text: string): string {
  const asUnits = (char: string): string =>
    Array.from({ length: char.length }, (_, at) => char.charCodeAt(at).toString(16))
      .map((unit) => `\\u${unit.padStart(4, '0')}`)
      .join('');
  return `${text.replace(/[^\P{C}\n]/gu, asUnits)}\n`;
}
