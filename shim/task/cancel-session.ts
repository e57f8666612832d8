/** Cancels a checkpoint or restore that nobody waits for. */

import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { KfdError } from '../../src/errors.js';
import { lineage } from '../../src/os/ancestors.js';
import { SessionClient } from '../../src/session/control/client.js';
import { sessionPids } from '../../src/session/control/folders.js';

/** How long to wait for the session, milliseconds. The caller asks again while its call runs. */
const waitMs = 20_000;
const pauseMs = 250;

/** The words of the OCI runtime's command line by which its session is known. */
export interface RuntimeCall {
  readonly operation: 'checkpoint' | 'restore';
  /** The bundle of a restore, or the image directory of a checkpoint. */
  readonly path: string;
  /** Somebody has killed or deleted the container, and no caller has gone. */
  readonly isEnded?: boolean;
}

/**
 * Waits for the session of this call, and cancels it. Does nothing when the session is too far. False
 * when there was none within `limitMs`, as for a container without a GPU. Throws as SessionClient.
 */
export async function cancelSession(
  call: RuntimeCall,
  root = '/',
  limitMs = waitMs,
): Promise<boolean> {
  for (const end = Date.now() + limitMs; ; await delay(pauseMs)) {
    const pid = sessionPids(root).find((criu) => isStartedBy(call, criu));
    if (pid !== undefined && (await cancel(root, pid, call))) return true;
    if (Date.now() > end) return false;
  }
}

/** False when the session does not listen: it has just started, or has ended. */
async function cancel(
  root: string,
  pid: number,
  { operation, isEnded }: RuntimeCall,
): Promise<boolean> {
  const reason =
    isEnded === true
      ? `the container was killed or deleted during its ${operation}`
      : `the caller of the ${operation} has left containerd`;
  try {
    await SessionClient.with(root, pid, (client) => client.cancel(reason));
  } catch (error) {
    if (!(error instanceof KfdError)) throw error;
    if (error.code === 'E_NOT_FOUND') return false;
    if (error.code !== 'E_TOO_LATE') throw error;
  }
  return true;
}

/**
 * Whether `runtime restore --bundle BUNDLE` or `runtime checkpoint --image-path IMAGE` has started this
 * CRIU. The process tree answers this, because the session knows neither the bundle nor the name.
 */
function isStartedBy({ operation, path }: RuntimeCall, criu: number): boolean {
  return lineage(criu).some((name) => {
    const args = commandLine(Number.parseInt(name, 10));
    return args.includes(operation) && args.includes(path);
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
