/**
 * The sessions' folders, one per CRIU. A killed session leaves its folder, and a killed command the one that it had for
 * its sessions. The next session removes them.
 */

import {
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { commandOf } from '../../criu/command-folder.js';
import { runFolder } from '../../criu/state-folder.js';
import { asKfdError, isMissing } from '../../errors.js';
import { processName, processNameIfAny } from '../../os/ancestors.js';

/** Names the session's process by pid and start time. native/core/wire/session_socket.cc has it, too. */
const ownerFile = 'owner';
/** A link to the folder of the pages files, when the image has it. native/core/wire/contents_link.cc has it, too. */
export const contentsLink = 'contents';
/** CRIU's pid. */
const sessionName = /^[1-9]\d{0,8}$/;
/** native/launcher/cgroup.cc makes one for each session, with the same name. */
const sessionCgroups = '/sys/fs/cgroup/kfd-checkpoint';

/** CRIU's pids of the sessions that have a folder below `root`, dead ones included. Throws E_IO. */
export function sessionPids(root: string): number[] {
  return namesIn(join(root, runFolder))
    .filter((name) => sessionName.test(name))
    .map(Number)
    .sort((a, b) => a - b);
}

function namesIn(run: string): string[] {
  try {
    return readdirSync(run);
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
 * Removes what killed processes have left in the run folder, and the cgroups of killed sessions. Returns the names of
 * the folders. Throws E_IO, Node's error. `run` is another folder in tests only: pids are those of this host.
 */
export function removeDeadFolders(run: string = runFolder): string[] {
  const dead = namesIn(run).filter((name) => {
    const isDead = sessionName.test(name)
      ? !isOwned(join(run, name), Number(name))
      : isOfDeadCommand(name);
    if (isDead) rmSync(join(run, name), { recursive: true, force: true });
    return isDead;
  });
  if (run === runFolder) for (const name of dead) removeEmptyCgroup(name);
  return dead;
}

/** Whether a session that lives writes its pages files to `folder`, a real path. Throws as `removeDeadFolders`. */
export function isWrittenTo(folder: string, run: string = runFolder): boolean {
  removeDeadFolders(run);
  return namesIn(run).some((name) => {
    try {
      return readlinkSync(join(run, name, contentsLink)) === folder;
    } catch {
      return false; // it has none, or has just ended
    }
  });
}

/** A kernel keeps the cgroup of a process that lives. */
function removeEmptyCgroup(name: string): void {
  try {
    rmdirSync(join(sessionCgroups, name));
  } catch {
    // Sessions under cgroup v1 have none. The next launcher removes one that stays.
  }
}

function isOfDeadCommand(name: string): boolean {
  const command = commandOf(name);
  return command !== undefined && processNameIfAny(command.pid) !== command.process;
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
