/** Text of man pages in man(7), with tables in tbl(7). Both groff and mandoc read it. */

/** Characters of a line of a table: 80 columns without the margins of man(1). */
const tableColumns = 68;
const gap = 3;

/** Text that roff prints as it is. Hyphens stay hyphens, so that programs can be copied from a page. */
export function escaped(text: string): string {
  return text
    .replace(/\\/g, '\\e')
    .replace(/-/g, '\\-')
    .replace(/[^\n -~]/gu, (char) => `\\[u${hex(char)}]`);
}

const hex = (char: string) =>
  (char.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0');

/** `text` is roff already. */
export const bold = (text: string) => `\\fB${text}\\fR`;
export const italic = (text: string) => `\\fI${text}\\fR`;

/** A line of text. At its start a full stop or an apostrophe would make it a request. */
export function line(roff: string): string {
  return `${/^['.]/.test(roff) ? '\\&' : ''}${roff.replace(/\s+/g, ' ').trim()}\n`;
}

/** An argument of a macro. */
const quoted = (roff: string) => `"${roff.replaceAll('"', '\\(dq')}"`;

export interface Title {
  readonly name: string;
  readonly section: 5 | 8;
  /** A phrase. */
  readonly summary: string;
}

export interface Edition {
  /** As year, month and day. */
  readonly date: string;
  readonly version: string;
}

/** A whole page. `body` is everything after NAME. */
export function page({ name, section, summary }: Title, edition: Edition, body: string): string {
  const words = [
    name.toUpperCase(),
    `${section}`,
    edition.date,
    `kfd-checkpoint ${edition.version}`,
  ];
  const head = words.map(quoted).join(' ');
  const title = line(`${escaped(name)} \\- ${escaped(summary)}`);
  // The first line makes man(1) run tbl.
  const text = `'\\" t\n.TH ${head}\n.nh\n.ad l\n${heading('Name')}${title}${body}`;
  // A heading begins a paragraph itself.
  return text.replace(/^(\.S[HS] .*\n)\.PP\n/gm, '$1');
}

export const heading = (text: string) => `.SH ${quoted(escaped(text.toUpperCase()))}\n`;
export const subheading = (text: string) => `.SS ${quoted(escaped(text))}\n`;
export const paragraph = (roff: string) => `.PP\n${line(roff)}`;
export const tagged = (tag: string, roff: string) => `.TP\n${line(tag)}${line(roff)}`;
export const item = (mark: string, roff: string) => `.IP ${quoted(mark)} 4\n${line(roff)}`;

/** Lines that stay as they are. */
export function verbatim(text: string): string {
  const lines = text.trimEnd().split('\n');
  const kept = lines.map((one) => `${/^['.]/.test(one) ? '\\&' : ''}${escaped(one)}\n`);
  return `.PP\n.RS 4\n.nf\n${kept.join('')}.fi\n.RE\n`;
}

export interface Cell {
  readonly roff: string;
  /** The same as a reader sees it: its length decides the widths. */
  readonly text: string;
}

/**
 * A table. Columns that do not fit in a line share it, and their cells are broken. Where that would be hard to read,
 * each row is a paragraph under its first cell.
 */
export function table(heads: readonly Cell[], rows: readonly (readonly Cell[])[]): string {
  const all = [heads, ...rows];
  const needed = columnsOf(all, ({ text }) => text.length);
  const words = columnsOf(all, ({ text }) =>
    Math.max(...text.split(' ').map((word) => word.length)),
  );
  const room = tableColumns - gap * (needed.length - 1);
  const widths = cutTo(room, needed);
  const isCut = total(needed) > room;
  if (isCut && (needed.length > 3 || words.some((word, at) => word > (widths[at] ?? 0)))) {
    return rows.map((row) => asParagraph(heads, row)).join('');
  }
  const formats = (font: string) => widths.map((width) => `l${font}w(${width}n)`).join(' ');
  const block = ({ roff }: Cell) => `T{\n${roff === '' ? '' : line(roff)}T}`;
  const shown = heads.some(({ text }) => text !== '') ? [heads, ...rows] : rows;
  const body = shown.map((cells) => `${cells.map(block).join('\t')}\n`).join('');
  const format = shown === rows ? `${formats('')}.` : `${formats('B')}\n${formats('')}.`;
  return `.PP\n.TS\n${format}\n${body}.TE\n`;
}

/** The first cell, the last one below it, and those between with their heads. */
function asParagraph(heads: readonly Cell[], row: readonly Cell[]): string {
  const between = row.slice(1, -1).map(({ roff }, at) => `${heads[at + 1]?.roff}: ${roff}`);
  const below = between.length === 0 ? '' : `.br\n${line(between.join('; '))}`;
  return tagged(row[0]?.roff ?? '', row.at(-1)?.roff ?? '') + below;
}

const total = (widths: readonly number[]) => widths.reduce((sum, width) => sum + width, 0);

/** The greatest `widthOf` in each column. */
function columnsOf(rows: readonly (readonly Cell[])[], widthOf: (cell: Cell) => number): number[] {
  const [first = []] = rows;
  return first.map((_, at) =>
    Math.max(1, ...rows.flatMap((cells) => cells.slice(at, at + 1).map(widthOf))),
  );
}

/** If that is too much, wide columns are cut down to the same width. */
function cutTo(room: number, needed: readonly number[]): number[] {
  let most = Math.max(...needed);
  const cut = () => needed.map((width) => Math.min(width, most));
  while (most > 8 && total(cut()) > room) most -= 1;
  return cut();
}
