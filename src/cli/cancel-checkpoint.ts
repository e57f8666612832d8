/** Cancels the checkpoint of one container, whoever has begun it. */

import { setTimeout as delay } from 'node:timers/promises';
import { KfdError } from '../errors.js';
import { lineage } from '../os/ancestors.js';
import { SessionClient } from '../session/control/client.js';
import { sessionPids } from '../session/control/folders.js';

const stepMs = 200;

/** A container by podman's id, or by the process that all work on it descends from. */
export type Checkpointed = { readonly containerId: string } | { readonly ancestor: string };

/**
 * As soon as it has a session that knows its container. Resolves when that one is cancelled or cannot be any more, and
 * after `ended`. A session that does not answer is asked again.
 */
export async function cancelCheckpoint(
  root: string,
  which: Checkpointed,
  reason: string,
  ended: AbortSignal,
): Promise<void> {
  while (!ended.aborted) {
    for (const pid of sessionPids(root)) {
      const isDone = await cancelIfOf(root, pid, which, reason, ended).catch(
        (error: unknown) => error instanceof KfdError && error.code === 'E_TOO_LATE',
      );
      if (isDone) return;
    }
    await delay(stepMs, undefined, { signal: ended }).catch(() => undefined);
  }
}

function cancelIfOf(
  root: string,
  pid: number,
  which: Checkpointed,
  reason: string,
  ended: AbortSignal,
): Promise<boolean> {
  if ('ancestor' in which && !lineage(pid).includes(which.ancestor)) return Promise.resolve(false);
  return SessionClient.with(root, pid, async (client) => {
    const { container_id: id, operation } = await client.status(ended);
    if ('containerId' in which && id !== which.containerId) return false;
    if (operation !== 'OPERATION_DUMP') return false;
    await client.cancel(reason, ended);
    return true;
  });
}
