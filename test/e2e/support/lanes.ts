/**
 * A scenario's engines go through it side by side. What belongs to the whole guest (the simulated
 * GPU's module and rate, our installation) they change together, when both have come to that point.
 */

import type { Engine } from './container.js';

type Action = () => Promise<void> | void;

export class Lanes {
  #running: number;
  #waiting: { resolve: () => void; reject: (error: unknown) => void }[] = [];
  #action: Action = () => undefined;

  constructor(running: number) {
    this.#running = running;
  }

  /** Waits until every lane is here, or has ended; then `action`, the same in all, runs once. */
  meet(action: Action): Promise<void> {
    this.#action = action;
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject });
      this.#startNext();
    });
  }

  /** One lane has ended: the others wait for it no more. */
  leave(): void {
    this.#running--;
    this.#startNext();
  }

  #startNext(): void {
    if (this.#waiting.length < this.#running || this.#waiting.length === 0) return;
    const waiting = this.#waiting.splice(0);
    // Not in this turn: an action that throws must not throw out of meet() of one lane only.
    Promise.resolve()
      .then(this.#action)
      .then(
        () => waiting.forEach(({ resolve }) => void resolve()),
        (error) => waiting.forEach(({ reject }) => void reject(error)),
      );
  }
}

/** What a scenario's body is given. */
export interface Lane {
  readonly engine: Engine;
  /** Waits for the other engines, then one `action` runs for all. */
  meet(action: Action): Promise<void>;
}
