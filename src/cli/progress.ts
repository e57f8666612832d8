/** Progress on standard error: one redrawn line on a terminal, one line per file elsewhere. */

import { size } from './format.js';
import type { Surroundings } from './surroundings.js';

export interface Progress {
  readonly update: (name: string, bytesDone: number, bytesTotal: number) => void;
  /** Leaves the terminal on a fresh line. */
  readonly end: () => void;
}

/** Redraws at most ten times a second. */
const intervalMs = 100;

export function progressOf({ err, isTerminal }: Surroundings): Progress {
  let drawn = 0;
  let isOpen = false;
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
      const percent = bytesTotal === 0 ? 100 : Math.floor((bytesDone / bytesTotal) * 100);
      err(`\r\u001b[K${name}: ${size(bytesDone)} of ${size(bytesTotal)} (${percent}%)`);
      isOpen = true;
    },
    end() {
      if (isOpen) err('\r\u001b[K');
      isOpen = false;
    },
  };
}
