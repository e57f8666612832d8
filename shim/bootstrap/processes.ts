/**
 * What `delete` has to know when we were killed: which process was ours, and which is the stock shim that nobody could reach any
 * more. shim/containerd-shim-kfd-v2 reads these files: one line of words each.
 */

import { writeFileSync } from 'node:fs';
import { startTime } from '../../src/os/ancestors.js';

/** In every bundle that was started here: the path of our socket. */
export const bundleFile = 'kfd-shim';

/** Beside our socket: our pid and start time, the stock shim's pid, start time and socket. */
export function processesFile(socket: string): string {
  return `${socket}.processes`;
}

/** Throws Node's error; ESRCH or ENOENT when the process has ended. */
export function writeProcesses(socket: string, childPid: number, child: string): void {
  const own = [process.pid, startTime(process.pid)];
  const line = [...own, childPid, startTime(childPid), child].join(' ');
  writeFileSync(processesFile(socket), `${line}\n`, { mode: 0o600 });
}
