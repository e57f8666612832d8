/**
 * Files for `delete`, for the case that this process was killed. They name our process, and the stock
 * shim that nobody can reach any more. shim/containerd-shim-kfd-v2 reads them: one line each, with
 * fields separated by spaces.
 */

import { writeFileSync } from 'node:fs';
import { startTime } from '../../src/os/ancestors.js';
import { processesFile } from '../../src/runtime/shim-names.js';

/** Throws Node's error; ESRCH or ENOENT when the process has ended. */
export function writeProcesses(socket: string, stockPid: number, stockSocket: string): void {
  const own = [process.pid, startTime(process.pid)];
  const line = [...own, stockPid, startTime(stockPid), stockSocket].join(' ');
  writeFileSync(processesFile(socket), `${line}\n`, { mode: 0o600 });
}
