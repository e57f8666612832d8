/** Cancels a restore whose caller is gone. */

import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { KfdError } from '../../src/errors.js';
import { lineage } from '../../src/os/ancestors.js';
import { SessionClient, sessionPids } from '../../src/session/control/client.js';

/**
 * How long to wait for the session, milliseconds. CRIU may not have called our plugin yet. A container
 * without a GPU has no session.
 */
const waitMs = 20_000;
const pauseMs = 250;

/**
 * Waits for the session in which the OCI runtime restores into `bundle`, and cancels it. Does nothing
 * when the session has ended or is too far. Throws as SessionClient.
 */
export async function cancelRestore(bundle: string, root = '/', limitMs = waitMs): Promise<void> {
  for (const end = Date.now() + limitMs; ; await delay(pauseMs)) {
    const pid = sessionPids(root).find((criu) => restoresInto(bundle, criu));
    if (pid !== undefined) return cancel(root, pid);
    if (Date.now() > end) return;
  }
}

async function cancel(root: string, pid: number): Promise<void> {
  try {
    await SessionClient.with(root, pid, (client) =>
      client.cancel('the caller of the restore has left containerd'),
    );
  } catch (error) {
    const isOver =
      error instanceof KfdError && (error.code === 'E_TOO_LATE' || error.code === 'E_NOT_FOUND');
    if (!isOver) throw error;
  }
}

/**
 * Whether `runtime restore --bundle BUNDLE` has started this CRIU. The process tree answers this, because
 * the session knows neither the bundle nor the name.
 */
function restoresInto(bundle: string, criu: number): boolean {
  return lineage(criu).some((name) => {
    const args = commandLine(Number.parseInt(name, 10));
    return args.includes('restore') && args.includes(bundle);
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
