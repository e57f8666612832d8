/**
 * What `delete` has to know when we were killed: which process was ours, and which is the stock shim that nobody could reach any
 * more. shim/containerd-shim-kfd-v2 reads these files: one line of words each.
 */

import { readFileSync, writeFileSync } from 'node:fs';

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

/** When a process began, in clock ticks since boot: field 22 of /proc/PID/stat (proc(5)). A pid alone may be another's by now. */
function startTime(pid: number): string {
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
  // Field 2 is the command's name in parentheses, and may hold anything.
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? '';
}
