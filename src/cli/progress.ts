/** Progress on standard error: one redrawn line on a terminal, one line per file elsewhere. */

import { size } from './format.js';
import type { Surroundings } from './surroundings.js';

export interface Progress {
  readonly update: (name: string, bytesDone: number, bytesTotal: number) => void;
  /** Says `text`, on a terminal alone, as long as there is nothing to measure. */
  readonly say: (text: string) => void;
  /** Leaves the terminal on a fresh line. */
  readonly end: () => void;
}

/** Characters of a whole bar. */
const barWidth = 20;

/** Redraws at most ten times a second. */
const intervalMs = 100;

export function progressOf({ err, isTerminal }: Surroundings): Progress {
  let drawn = 0;
  let isOpen = false;
  const draw = (text: string) => {
    err(`\r\u001b[K${text}`);
    isOpen = true;
  };
  return {
    update(name, bytesDone, bytesTotal) {
      const isComplete = bytesDone >= bytesTotal;
      if (!isTerminal) {
        if (isComplete) err(`${name}: ${size(bytesTotal)}\n`);
        return;
      }
      const now = Date.now();
      if (!isComplete && now - drawn < intervalMs) return;
      drawn = now;
      const share = bytesTotal === 0 ? 1 : Math.min(1, bytesDone / bytesTotal);
      const percent = Math.floor(share * 100);
      const bar = '#'.repeat(Math.floor((percent * barWidth) / 100)).padEnd(barWidth, '.');
      draw(`${name}: [${bar}] ${size(bytesDone)} of ${size(bytesTotal)} (${percent}%)`);
    },
    say(text) {
      if (isTerminal) draw(text);
    },
    end() {
      if (isOpen) err('\r\u001b[K');
      isOpen = false;
    },
  };
}
