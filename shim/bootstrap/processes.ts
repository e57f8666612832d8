/**
 * Files for `delete`, for the case that this process was killed. They name our process, and the stock
 * shim that nobody can reach any more. shim/containerd-shim-kfd-v2 reads them: one line each, with
 * fields separated by spaces.
 */

import { writeFileSync } from 'node:fs';
import { startTime } from '../../src/os/ancestors.js';

/** A file in every bundle that was started here. It holds the path of our socket. */
export const bundleFile = 'kfd-shim';

/** A file beside our socket: our pid and start time, then pid, start time and socket of the stock shim. */
export function processesFile(socket: string): string {
  return `${socket}.processes`;
}

/** Throws Node's error; ESRCH or ENOENT when the process has ended. */
export function writeProcesses(socket: string, stockPid: number, stockSocket: string): void {
  const own = [process.pid, startTime(process.pid)];
  const line = [...own, stockPid, startTime(stockPid), stockSocket].join(' ');
  writeFileSync(processesFile(socket), `${line}\n`, { mode: 0o600 });
}
