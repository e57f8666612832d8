/** Work that must follow other work of the same lane; lanes run side by side. */

export class Lanes {
  readonly #last = new Map<number, Promise<unknown>>();

  /** Starts `work` when the earlier work of `lane` is done. When that failed it is not started and fails the same way. */
  run<T>(lane: number, work: () => Promise<T>): Promise<T> {
    const before = this.#last.get(lane) ?? Promise.resolve();
    const done = before.then(work);
    this.#last.set(lane, done);
    return done;
  }
}
