/** Standard output that can fail while a verb runs. The verb finishes in any case. */

import type { Writable } from 'node:stream';
import { asKfdError, type KfdError } from '../errors.js';

export interface Output {
  readonly write: (text: string) => void;
  /** Resolves when everything is written or has failed. E_IO: some of it is missing. */
  readonly finished: () => Promise<KfdError | undefined>;
}

/**
 * Writes to `stream` until the first failure and ignores all later text. A reader that has read
 * enough, such as head(1), is no failure.
 */
export function outputTo(stream: Writable): Output {
  let failure: Error | undefined;
  const fail = (error: Error | null | undefined) => {
    failure ??= error ?? undefined;
  };
  stream.on('error', fail);
  return {
    write(text) {
      if (failure === undefined) stream.write(text, fail);
    },
    async finished() {
      // The callback of the last write comes after the callbacks of all writes before it.
      if (failure === undefined) {
        await new Promise<void>((resolve) => {
          stream.write('', (error) => {
            fail(error);
            resolve();
          });
        });
      }
      return failure === undefined || isClosedByReader(failure)
        ? undefined
        : asKfdError(failure, 'standard output');
    },
  };
}

function isClosedByReader(error: NodeJS.ErrnoException): boolean {
  return error.code === 'EPIPE' || error.code === 'ECONNRESET';
}
