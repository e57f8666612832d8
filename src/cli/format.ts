/** Text for humans: sizes, times, columns, trees. */

/** Binary units with one decimal, as checkpointctl prints them; below 1 KiB whole bytes. */
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

/** Decimal units, as links and disks have them. */
export function rate(bytesPerSecond: number): string {
  return `${(bytesPerSecond / 1e6).toFixed(1)} MB/s`;
}

/** Columns under upper-case heads, two spaces apart, as podman prints them. */
export function table(heads: readonly string[], rows: readonly (readonly string[])[]): string {
  const cells = [heads, ...rows].map((row) => row.map(printable));
  const widths = heads.map((_, column) =>
    Math.max(...cells.map((row) => (row[column] ?? '').length)),
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

/** Text out of an archive must not steer the terminal. */
export function printable(text: string): string {
  return text.replace(/\p{C}/gu, '?');
}

export function json(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`;
}
