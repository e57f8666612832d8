/** Stops a restore that nobody waits for any more. */

import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { KfdError } from '../../src/errors.js';
import { lineage } from '../../src/os/ancestors.js';
import { SessionClient, sessionPids } from '../../src/session/control/client.js';

/** CRIU may not have come to our plugin yet; a container without a GPU has no session. Milliseconds. */
const patienceMs = 20_000;
const pauseMs = 250;

/**
 * Cancels the session in which the OCI runtime restores into `bundle`, once it is there. Throws what SessionClient throws; one
 * that is over, or too far, is left alone.
 */
export async function cancelRestore(
  bundle: string,
  root = '/',
  patience = patienceMs,
): Promise<void> {
  for (const end = Date.now() + patience; ; await delay(pauseMs)) {
    const pid = sessionPids(root).find((criu) => restoresInto(bundle, criu));
    if (pid !== undefined) return cancel(root, pid);
    if (Date.now() > end) return;
  }
}

async function cancel(root: string, pid: number): Promise<void> {
  try {
    await SessionClient.with(root, pid, (client) =>
      client.cancel('who asked containerd for the restore has gone'),
    );
  } catch (error) {
    const isOver =
      error instanceof KfdError && (error.code === 'E_TOO_LATE' || error.code === 'E_NOT_FOUND');
    if (!isOver) throw error;
  }
}

/** Whether `runtime restore --bundle BUNDLE` has started this CRIU: the session hears of neither bundle nor name. */
function restoresInto(bundle: string, criu: number): boolean {
  return lineage(criu).some((name) => {
    const words = commandLine(Number.parseInt(name, 10));
    return words.includes('restore') && words.includes(bundle);
  });
}

/** Empty when the process has ended. */
function commandLine(pid: number): string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').slice(0, -1);
  } catch {
    return [];
  }
}
