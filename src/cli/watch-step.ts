/** What `watch` shows of a status, on a terminal and elsewhere. */

import { printable } from '../errors.js';
import type { CommandContext } from './context.js';
import { rate, size } from './format.js';
import type { Progress } from './progress.js';

export interface Step {
  readonly subject: string;
  readonly phase: string;
  readonly done: number;
  readonly total: number;
  /** Bytes per second. 0: not known. */
  readonly speed: number;
  /** Beside the rate: what is left. */
  readonly more?: string;
  /** The end: what became of it. */
  readonly outcome?: string;
}

/** A bar on a terminal. Otherwise a line for each phase and for each tenth of the bytes. */
export function shownIn(
  { out, isTerminal }: CommandContext,
  progress: Progress,
): (step: Step) => void {
  let printed = '';
  return ({ subject, phase, done, total, speed, more = '', outcome }) => {
    if (outcome !== undefined) {
      progress.end();
      out(`${printable(`${subject}: ${outcome}`)}\n`);
      return;
    }
    const name = printable(`${subject}: ${phase}`);
    const pace = speed === 0 ? '' : `, ${rate(speed)}${more}`;
    if (isTerminal) {
      if (total === 0) progress.show(name);
      else progress.update(`${name}${pace}`, done, total);
      return;
    }
    const tenths = total === 0 ? 0 : Math.floor((10 * done) / total);
    if (printed === `${name} ${tenths}`) return;
    printed = `${name} ${tenths}`;
    out(`${name}, ${size(done)} of ${size(total)}${pace}\n`);
  };
}
