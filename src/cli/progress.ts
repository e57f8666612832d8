/** Progress on standard error: one redrawn line on a terminal, one line per file elsewhere. */

import { printable } from '../errors.js';
import type { CommandContext } from './context.js';
import { columnsOf, fitted, size } from './format.js';

export interface Progress {
  readonly update: (name: string, bytesDone: number, bytesTotal: number) => void;
  /** Shows `text` on a terminal while there is nothing to measure. */
  readonly show: (text: string) => void;
  /** Leaves the terminal on an empty line. */
  readonly end: () => void;
}

/** Characters inside a bar: as many as there is room for, within these limits. */
const barWidth = { least: 5, most: 20 } as const;

/** Redraws at most ten times a second. */
const intervalMs = 100;

/** For a terminal that does not know its width. */
const usualColumns = 80;

/** The width is read for each line, so a terminal can be resized meanwhile. */
export function progressOf({ err, isTerminal, columns }: CommandContext): Progress {
  let drawn = 0;
  let isOpen = false;
  const draw = (line: (room: number) => string) => {
    // Many terminals begin a new line as soon as the last column is used, so it stays free.
    err(`\r\u001b[K${line((columns() || usualColumns) - 1)}`);
    isOpen = true;
  };
  return {
    update(name, bytesDone, bytesTotal) {
      const isComplete = bytesDone >= bytesTotal;
      if (!isTerminal) {
        if (isComplete) err(`${printable(name)}: ${size(bytesTotal)}\n`);
        return;
      }
      const now = Date.now();
      if (!isComplete && now - drawn < intervalMs) return;
      drawn = now;
      draw((room) => progressLine(printable(name), bytesDone, bytesTotal, room));
    },
    show(text) {
      if (isTerminal) draw((room) => fitted(printable(text), room));
    },
    end() {
      if (isOpen) err('\r\u001b[K');
      isOpen = false;
    },
  };
}

/** Without room for all of it the bar shrinks first and then goes. After the bar the name is cut. */
function progressLine(name: string, bytesDone: number, bytesTotal: number, room: number): string {
  const share = bytesTotal === 0 ? 1 : Math.min(1, bytesDone / bytesTotal);
  const percent = Math.floor(share * 100);
  const numbers = `${size(bytesDone)} of ${size(bytesTotal)} (${percent}%)`;
  const forBar = room - columnsOf(`${name}: [] ${numbers}`);
  if (forBar < barWidth.least) {
    const forName = Math.max(0, room - columnsOf(`: ${numbers}`));
    return fitted(`${fitted(name, forName)}: ${numbers}`, room);
  }
  const width = Math.min(forBar, barWidth.most);
  const bar = '#'.repeat(Math.floor((percent * width) / 100)).padEnd(width, '.');
  return `${name}: [${bar}] ${numbers}`;
}
