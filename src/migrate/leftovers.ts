/**
 * What a migration has in /run, and who removes it: each side at its end, the guard its own log, and the next migration
 * what killed processes have left. The journal decides who owns a container, and is never touched here.
 */

import { promises } from 'node:fs';
import { join } from 'node:path';
import { isMissing, KfdError } from '../errors.js';
import type { Run } from '../os/exec.js';
import { Lock } from '../os/lock.js';
import { statusAt } from './control-client.js';
import { type JournalRecord, listRecords } from './journal.js';
import { releaseMemory } from './memory.js';
import type { Places } from './places.js';
import { leaveMs, Work } from './work.js';

const never = new AbortController().signal;
const youngMs = 60_000;

export const guardCgroup = (id: string) => `migrate-${id}`;
const cgroupName = /^migrate-[0-9a-f]{32}$/;

/**
 * Everything but the lock of the side, which the caller has. `name`: as in Places.lock. A lock that podman still has
 * stays. Throws Node's error, E_HOST.
 */
export async function removeFiles(name: string, places: Places, run: Run): Promise<void> {
  await releaseMemory(places.memory(name), run);
  for (const path of [places.log(name), places.contents(name), places.fifo(name)])
    await promises.rm(path, { force: true });
  await (await Lock.tryTake(places.work(name)))?.remove();
}

/** Of a guard that has ended and has had nothing to say. Throws Node's error. */
export async function removeIfEmpty(path: string): Promise<void> {
  const found = await promises.stat(path).catch((error: unknown) => {
    if (!isMissing(error)) throw error;
  });
  if (found?.size === 0) await promises.rm(path, { force: true });
}

/** How long a process that removes what is left may hold the lock of a migration, milliseconds. */
export const sweepMs = 15_000;

/**
 * What is left on a target of migrations that have neither a record nor a process: nobody will ask for them, and a
 * source that did would hear "failed". Throws Node's error, E_HOST.
 */
export async function removeDeadFiles(places: Places, run: Run): Promise<void> {
  const names = await namesIn(places.run);
  // A source of the same migration may be on this host: its socket says nothing of the target.
  const ids = names.flatMap((name) => /^([0-9a-f]{32})\.(?!source$)/.exec(name)?.[1] ?? []);
  for (const id of new Set(ids)) {
    const lock = await lockOfDead(id, places);
    if (lock === undefined) continue;
    // A restore that was never told to begin.
    const until = performance.now() + leaveMs;
    await new Work(places.work(id)).settle(() => performance.now() > until);
    await removeFiles(id, places, run);
    for (const path of [places.guardLog(id), places.control(id, 'target')])
      await promises.rm(path, { force: true });
    await lock.remove();
  }
  // The kernel keeps those of guards that live.
  for (const name of (await namesIn(places.guardCgroups)).filter((one) => cgroupName.test(one)))
    await promises.rmdir(join(places.guardCgroups, name)).catch(() => undefined);
}

/** The lock of a target's migration that has neither a record nor a process. Throws Node's error. */
export async function lockOfDead(id: string, places: Places): Promise<Lock | undefined> {
  const target = { id, side: 'target' } as const;
  if (await isRecorded(target, places)) return undefined;
  const lock = await Lock.tryTake(places.lock(id));
  if (lock === undefined) return undefined;
  let isDead = false;
  try {
    // Its process may have recorded it, and ended, since.
    isDead = !(await isRecorded(target, places));
  } finally {
    if (!isDead) await lock.release();
  }
  return isDead ? lock : undefined;
}

/** GPU contents that a source has kept for a migration without a record: nobody needs them. Throws Node's error. */
export async function removeDeadContents(places: Places): Promise<void> {
  const ids = (await namesIn(places.kept)).filter((name) => /^[0-9a-f]{32}$/.test(name));
  for (const id of ids) {
    // A source records itself before it keeps anything: what is seen is recorded by now.
    if (await isRecorded({ id, side: 'source' }, places)) continue;
    await promises.rm(join(places.kept, id), { recursive: true, force: true });
  }
}

async function isRecorded(
  { id, side }: Pick<JournalRecord, 'id' | 'side'>,
  places: Places,
): Promise<boolean> {
  const records = await listRecords(places.journal);
  return records.some((one) => one.id === id && one.side === side);
}

/**
 * Sockets of sources that were killed: nobody answers there. One that has only just been made may not answer yet.
 * Throws Node's error.
 */
export async function removeDeadSockets(places: Places): Promise<void> {
  for (const name of (await namesIn(places.run)).filter((one) =>
    /^[0-9a-f]{32}\.source$/.test(one),
  )) {
    const path = join(places.run, name);
    const found = await promises.stat(path).catch(() => undefined);
    if (found === undefined || Date.now() - found.mtimeMs < youngMs) continue;
    const isDead = await statusAt(path, never).then(
      () => false,
      (error: unknown) => error instanceof KfdError && error.code === 'E_NOT_FOUND',
    );
    if (isDead) await promises.rm(path, { force: true });
  }
}

async function namesIn(folder: string): Promise<string[]> {
  return promises.readdir(folder).catch((error: unknown) => {
    if (isMissing(error)) return [];
    throw error;
  });
}
