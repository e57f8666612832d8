/** Survivors that were looked at, and why each of them may stay: test/mutate/judged.list. */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { repository } from '../unit/paths.js';

/** A fault in the words of the list: "FILE: CHANGE", without its line, because lines move. */
export interface Named {
  readonly file: string;
  /** "a < b -> a <= b"; a guard of C++: its condition. */
  readonly change: string;
}

export class Judged {
  readonly #reasons: ReadonlyMap<string, string>;

  /**
   * `text`: reasons, each on lines that begin with "# ", and below each of them the survivors that it is given for. An
   * empty line ends them. Throws for a survivor without a reason.
   */
  constructor(text: string) {
    const reasons = new Map<string, string>();
    let reason: string[] = [];
    let isOpen = false;
    for (const line of text.split('\n')) {
      if (line.startsWith('# ')) {
        reason = isOpen ? [...reason, line.slice(2)] : [line.slice(2)];
        isOpen = true;
        continue;
      }
      isOpen = false;
      if (line === '') reason = [];
      else if (reason.length === 0) throw new Error(`a survivor without a reason: ${line}`);
      else reasons.set(line, reason.join(' '));
    }
    this.#reasons = reasons;
  }

  static fromList(): Judged {
    return new Judged(readFileSync(join(repository, 'test/mutate/judged.list'), 'utf8'));
  }

  /** Why this one may survive; undefined when nobody has judged it. */
  reasonOf(survivor: Named): string | undefined {
    return this.#reasons.get(wordsOf(survivor));
  }

  /** Lines of the list about `files` that fit no survivor: they may go. */
  staleOf(files: ReadonlySet<string>, survivors: readonly Named[]): string[] {
    const alive = new Set(survivors.map(wordsOf));
    const fileOf = (words: string) => words.slice(0, words.indexOf(': '));
    return [...this.#reasons.keys()].filter(
      (words) => files.has(fileOf(words)) && !alive.has(words),
    );
  }
}

/** The same faults; of those of a file with the same words the second has " #2" behind them, and so on. */
export function numbered<T extends Named>(faults: readonly T[]): T[] {
  const counts = new Map<string, number>();
  return faults.map((fault) => {
    const words = wordsOf(fault);
    const count = (counts.get(words) ?? 0) + 1;
    counts.set(words, count);
    return count === 1 ? fault : { ...fault, change: `${fault.change} #${count}` };
  });
}

function wordsOf({ file, change }: Named): string {
  return `${file}: ${change}`;
}
