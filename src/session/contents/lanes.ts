/** Work that must follow other work of the same lane; lanes run side by side. */

import { KfdError } from '../../errors.js';

export class Lanes {
  readonly #last = new Map<number, Promise<unknown>>();
  #closed = false;

  /**
   * Starts `work` when the earlier work of `lane` is done. If the earlier work failed, `work` is not started and
   * rejects with the same error.
   */
  run<T>(lane: number, work: () => Promise<T>): Promise<T> {
    const before = this.#last.get(lane) ?? Promise.resolve();
    const done = before.then(() => {
      if (this.#closed) throw new KfdError('E_CANCELLED', 'transfer: cancelled before it began');
      return work();
    });
    this.#last.set(lane, done);
    return done;
  }

  /** Work that has not begun is never started. It rejects with E_CANCELLED. */
  close(): void {
    this.#closed = true;
  }
}
