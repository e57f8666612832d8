/** SIGINT and its like, for verbs that wait for something which does not hear of signals. */

import { KfdError } from '../errors.js';

/** Throws E_CANCELLED after a signal. */
export function failIfInterrupted(signal: AbortSignal): void {
  if (signal.aborted) throw new KfdError('E_CANCELLED', 'kfd-checkpoint: interrupted');
}

/** The result of `work`. Rejects with E_CANCELLED at a signal, without waiting for the end of `work`. */
export function unlessInterrupted<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const stop = () => {
      try {
        failIfInterrupted(signal);
      } catch (error) {
        reject(error as Error);
      }
    };
    stop();
    signal.addEventListener('abort', stop, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', stop));
  });
}
