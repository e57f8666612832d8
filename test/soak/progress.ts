/** A part of the soak under way: its samples so far, told and kept now and then. */

import { keep } from './results.js';
import type { Sample } from './sample.js';

const everyMs = 60_000;

export class Progress {
  readonly part: string;
  readonly count: number;
  readonly samples: Sample[] = [];
  readonly #began = performance.now();
  #told = this.#began;

  /** `part` is to have `count` cycles. */
  constructor(part: string, count: number) {
    this.part = part;
    this.count = count;
  }

  get done(): boolean {
    return this.samples.length >= this.count;
  }

  /** A cycle has ended. Once a minute there is a line of it, and results that survive the end of the guest. */
  add(sample: Sample): void {
    this.samples.push(sample);
    const now = performance.now();
    if (now - this.#told < everyMs) return;
    this.#told = now;
    const cycles = this.samples.length;
    const each = (now - this.#began) / 1000 / cycles;
    keep(this.part, this.samples);
    process.stderr.write(`${this.part}: ${cycles} of ${this.count}, ${each.toFixed(1)} s each\n`);
  }
}
