/** The time a restore may take. */

import { KfdError } from '../../errors.js';

/** Seconds left of `seconds` since this program began, and at least `least`. */
export function secondsLeft(seconds: number, least = 0): number {
  return Math.max(least, seconds - performance.now() / 1000);
}

/**
 * `work`, or E_TIMEOUT with `what` when `seconds` have passed since this program began. Podman's own limit also counts
 * from its start.
 */
export async function withDeadline(
  seconds: number,
  what: string,
  work: Promise<void>,
): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const deadline = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      const reason = `${what} ${seconds} s after the restore began`;
      const hint = 'raise gate_timeout_s; podman itself gives up a restore after 240 s';
      reject(new KfdError('E_TIMEOUT', reason, { hint }));
    }, secondsLeft(seconds) * 1000);
  });
  try {
    await Promise.race([work, deadline]);
  } finally {
    clearTimeout(timer);
  }
}
