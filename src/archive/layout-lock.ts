/**
 * One writer of an OCI image layout at a time. A writer reads the list of images, relies on blobs that are there, and
 * replaces the list at the end: with two at once, one loses its image or blobs. Tools of others do not take this lock.
 */

import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { KfdError } from '../errors.js';
import { Lock } from '../os/lock.js';

/** In the layout, for as long as somebody writes. */
export const lockName = '.kfd-checkpoint.lock';

/** A writer needs seconds at least; each look starts flock(1). */
const lookMs = 500;

export interface LayoutWait {
  readonly signal: AbortSignal;
  /** Tells, once, that another process writes. */
  readonly err: (text: string) => void;
}

/**
 * Runs `work` as the only writer of the layout `dir`, a folder that is made if it is missing. Waits for another one.
 * `shown`: what the user has named. Throws E_CANCELLED, E_HOST without flock(1), E_IO, Node's error.
 */
export async function asOnlyWriter<T>(
  dir: string,
  shown: string,
  wait: LayoutWait,
  work: () => Promise<T>,
): Promise<T> {
  const lock = await taken(join(dir, lockName), shown, wait);
  try {
    return await work();
  } finally {
    await lock.remove();
  }
}

async function taken(path: string, shown: string, { signal, err }: LayoutWait): Promise<Lock> {
  for (let looks = 0; ; looks++) {
    // A Ctrl-C of the terminal ends flock(1), too.
    const lock = await Lock.tryTake(path).catch((error: unknown) => {
      throw signal.aborted ? cancelled(shown) : error;
    });
    if (lock !== undefined) return lock;
    if (looks === 0) err(`${shown}: waits for another process that writes into this layout\n`);
    await delay(lookMs, undefined, { signal }).catch(() => undefined);
    if (signal.aborted) throw cancelled(shown);
  }
}

const cancelled = (shown: string) =>
  new KfdError('E_CANCELLED', `${shown}: cancelled while another process writes into it`);
