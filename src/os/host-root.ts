/** Whether a process is root of the host: KFD saves and restores only for the initial user namespace. */

/** The one line of /proc/PID/uid_map in the initial user namespace. */
const wholeMap = /^\s*0\s+0\s+4294967295\s*$/;

/** Why a process with this effective user id and this text of its `uid_map` is not root of the host; else undefined. */
export function whyNotHostRoot(uid: number, uidMap: string): string | undefined {
  if (uid !== 0) return `runs as user ${uid}`;
  return wholeMap.test(uidMap) ? undefined : 'runs in a user namespace';
}
