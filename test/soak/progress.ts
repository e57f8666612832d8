/** A line now and then about a part that takes long. */

const everyMs = 60_000;

export class Progress {
  readonly #part: string;
  readonly #count: number;
  readonly #began = performance.now();
  #told = this.#began;

  constructor(part: string, count: number) {
    this.#part = part;
    this.#count = count;
  }

  /** `done` cycles have ended. */
  tell(done: number): void {
    const now = performance.now();
    if (now - this.#told < everyMs) return;
    this.#told = now;
    const each = (now - this.#began) / 1000 / done;
    process.stderr.write(`${this.#part}: ${done} of ${this.#count}, ${each.toFixed(1)} s each\n`);
  }
}
