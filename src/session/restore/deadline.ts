/** The time a restore may take. */

import { KfdError } from '../../errors.js';

/**
 * `work`, or E_TIMEOUT with `what` when `seconds` have passed since this program began. Podman's own limit also counts
 * from its start.
 */
export async function withDeadline(
  seconds: number,
  what: string,
  work: Promise<void>,
): Promise<void> {
  const left = Math.max(0, seconds * 1000 - performance.now());
  let timer: NodeJS.Timeout | undefined;
  const deadline = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      const reason = `${what} ${seconds} s after the restore began`;
      const hint = 'raise gate_timeout_s; podman itself gives up a restore after 240 s';
      reject(new KfdError('E_TIMEOUT', reason, { hint }));
    }, left);
  });
  try {
    await Promise.race([work, deadline]);
  } finally {
    clearTimeout(timer);
  }
}
