/** Where the time of a session went. Phases follow each other, so they sum to the wall time. */

export class Phases {
  readonly #began = performance.now();
  readonly #us = new Map<string, number>();
  #name: string;
  #since = this.#began;

  constructor(first: string) {
    this.#name = first;
  }

  /** Ends the current phase and begins `name`; a phase may come back. */
  enter(name: string): void {
    const now = performance.now();
    const spent = (now - this.#since) * 1000;
    this.#us.set(this.#name, (this.#us.get(this.#name) ?? 0) + spent);
    this.#name = name;
    this.#since = now;
  }

  /** The current phase; microseconds spent in it and in all. */
  get current(): { readonly name: string; readonly us: number; readonly totalUs: number } {
    const now = performance.now();
    const before = this.#us.get(this.#name) ?? 0;
    const us = Math.round(before + (now - this.#since) * 1000);
    return { name: this.#name, us, totalUs: Math.round((now - this.#began) * 1000) };
  }

  /** Microseconds per phase, the current one up to now, and `total` from the first to now. */
  timings(): Record<string, number> {
    this.enter(this.#name);
    const timings: Record<string, number> = {};
    for (const [name, us] of this.#us) timings[name] = Math.round(us);
    timings['total'] = Math.round((this.#since - this.#began) * 1000);
    return timings;
  }
}
