/** The sessions' folders, one per CRIU. A killed session leaves its folder, and the next one removes it. */

import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { runFolder } from '../../criu/state-folder.js';
import { asKfdError, isMissing } from '../../errors.js';
import { processName, processNameIfAny } from '../../os/ancestors.js';

/** Names the session's process by pid and start time. native/core/wire/session_socket.cc has it, too. */
const ownerFile = 'owner';

/** CRIU's pids of the sessions that have a folder below `root`, dead ones included. Throws E_IO. */
export function sessionPids(root: string): number[] {
  try {
    const names = readdirSync(join(root, runFolder));
    return names
      .filter((name) => /^[1-9]\d{0,8}$/.test(name))
      .map(Number)
      .sort((a, b) => a - b);
  } catch (error) {
    if (isMissing(error)) return [];
    throw asKfdError(error, 'sessions');
  }
}

/** Makes the folder of this process's session. Throws Node's error. */
export function claimFolder(directory: string): void {
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  writeFileSync(join(directory, ownerFile), processName(process.pid), { mode: 0o600 });
}

/**
 * Removes the folders of sessions whose process has ended. Returns CRIU's pids. Throws E_IO, Node's error. `root` is
 * another folder in tests only: pids are those of this host.
 */
export function removeDeadFolders(root = '/'): number[] {
  return sessionPids(root).filter((criuPid) => {
    const directory = join(root, runFolder, String(criuPid));
    if (isOwned(directory, criuPid)) return false;
    rmSync(directory, { recursive: true, force: true });
    return true;
  });
}

/** A folder without an owner belongs to a session that is just starting, as long as its CRIU lives. */
function isOwned(directory: string, criuPid: number): boolean {
  const owner = ownerOf(directory);
  if (owner === undefined) return processNameIfAny(criuPid) !== undefined;
  const [pid = ''] = owner.split('-');
  return /^[1-9]\d{0,8}$/.test(pid) && processNameIfAny(Number(pid)) === owner;
}

function ownerOf(directory: string): string | undefined {
  try {
    return readFileSync(join(directory, ownerFile), 'utf8') || undefined;
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}
