/** Contents on their way through an ssh: how far they are, and the end of one that takes no more. */

import { KfdError } from '../errors.js';
import { Patience } from './clock.js';
import { failureIn } from './failure-text.js';
import { answerMs, type Moment } from './protocol/lease.js';
import type { Ssh } from './ssh.js';

const lookMs = 250;

/** The way of one migration's contents to its target. */
export interface Way {
  readonly host: string;
  readonly id: string;
  readonly now: () => Promise<Moment>;
  /** Ends what is being sent. */
  readonly signal: AbortSignal;
  /** Gets the bytes that have been taken. */
  readonly onProgress: (bytes: number) => void;
}

interface Watch extends Pick<Way, 'now' | 'signal' | 'onProgress'> {
  /** How many bytes it has taken. */
  readonly bytes: () => number;
  /** Nothing is expected before the first byte. */
  readonly mayWait?: boolean;
}

/**
 * Waits for the end of ssh. Throws the reason of the other side, E_HOST, E_TIMEOUT where nothing has gone on for
 * `answerMs`, E_CANCELLED after the signal, and what `bytes` and `now` throw.
 */
export async function watched(ssh: Ssh, { bytes, now, onProgress, signal, mayWait }: Watch) {
  const patience = new Patience(answerMs, now);
  let hangs = false;
  let failure: { readonly error: unknown } | undefined;
  const stop = () => {
    // From now on the caller may close what is looked at.
    clearInterval(look);
    ssh.end();
  };
  const watch = async () => {
    const done = bytes();
    onProgress(done);
    if ((mayWait === true && done === 0) || !(await patience.isOver(done))) return;
    hangs = true;
    stop();
  };
  const look = setInterval(() => {
    watch().catch((error: unknown) => {
      failure = { error };
      stop();
    });
  }, lookMs);
  signal.addEventListener('abort', stop, { once: true });
  if (signal.aborted) stop();
  try {
    const status = await ssh.ended;
    if (status === 0) return;
    if (signal.aborted) throw new KfdError('E_CANCELLED', 'migrate: interrupted');
    if (failure !== undefined) throw failure.error;
    throw await reasonOf(ssh, status, hangs);
  } finally {
    clearInterval(look);
    signal.removeEventListener('abort', stop);
  }
}

/** Why the target has not taken contents. */
async function reasonOf(ssh: Ssh, status: number | undefined, hangs: boolean): Promise<KfdError> {
  const { host, said } = ssh;
  if (hangs) {
    return new KfdError('E_TIMEOUT', `${host}: takes no more contents`, {
      hint: 'look at the disk there, and at the connection',
    });
  }
  const isUnknown = status === 255 || status === 127 || !said.startsWith('{');
  return isUnknown ? ssh.gone() : failureIn([said], host);
}
