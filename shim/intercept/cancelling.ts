/** Cancels the session of a call that nobody waits for. */

import { decodeResponse, statusCode } from '../../src/ttrpc/envelope.js';
import type { Helper } from './helper.js';

/** Before another attempt, milliseconds. */
const pauseMs = 250;

/**
 * Tries until the session has been cancelled, or until the call has ended: `ended` is aborted then. There is no other
 * limit, because CRIU calls our plugin late on a loaded host. An attempt must not outlive the call, because the next
 * call may have the same image. `report` receives errors.
 */
export async function cancelUntilEnded(
  { helper, report }: { helper: Helper; report: (error: unknown) => void },
  task: readonly ['cancel-checkpoint' | 'cancel-restore', ...'ended'[]],
  request: Buffer,
  ended: AbortSignal,
): Promise<void> {
  while (!ended.aborted) {
    try {
      // The task waits a while for a session, and then says that there is none.
      const { code } = decodeResponse(await helper(task, request, ended));
      if (code !== statusCode.notFound) return;
    } catch (error) {
      if (!ended.aborted) report(error);
    }
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
}
