/** A host whose containers are saved every hour must not fill its disk with logs. */

import { readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';

/** `<time>-<operation>-<pid>.log`, and CRIU's own logs that the shim keeps. Names begin with the time. */
const sessionLog = /^\d{4}-\d\d-\d\dT[\d-]+Z-(criu-)?(dump|restore)-\d+\.log$/;

/**
 * Removes the oldest session logs of `folder` until `keep` are left. Other files stay. Returns how many were removed.
 * Throws an error of the file system; logs that others have just removed are no error.
 */
export function removeOldLogs(folder: string, keep: number): number {
  const logs = readdirSync(folder).filter((name) => sessionLog.test(name));
  const old = logs.sort().slice(0, Math.max(0, logs.length - keep));
  for (const name of old) rmSync(join(folder, name), { force: true });
  return old.length;
}
