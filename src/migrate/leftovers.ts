/**
 * What a migration has in /run, and who removes it: each side at its end, the guard its own log, and the next migration
 * what killed processes have left. The journal decides who owns a container, and is never touched here.
 */

import { promises } from 'node:fs';
import { isMissing } from '../errors.js';
import { listRecords } from './journal.js';
import { Lock } from './lock.js';
import type { Places } from './places.js';

/**
 * Everything but the lock of the side, which the caller has. `name`: as in Places.lock. A lock that podman still has
 * stays. Throws Node's error.
 */
export async function removeFiles(name: string, places: Places): Promise<void> {
  for (const path of [places.log(name), places.contents(name)])
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

/**
 * What is left on a target of migrations that have neither a record nor a process: nobody will ask for them, and a
 * source that did would hear "failed". Throws Node's error.
 */
export async function removeDeadFiles(places: Places): Promise<void> {
  const known = new Set((await listRecords(places.journal)).map(({ id }) => id));
  const names = await promises.readdir(places.run).catch((error: unknown) => {
    if (isMissing(error)) return [];
    throw error;
  });
  const ids = new Set(names.flatMap((name) => /^([0-9a-f]{32})\./.exec(name)?.[1] ?? []));
  for (const id of [...ids].filter((one) => !known.has(one))) {
    const lock = await Lock.tryTake(places.lock(id));
    if (lock === undefined) continue;
    await removeFiles(id, places);
    for (const path of [places.guardLog(id), places.control(id, 'target')])
      await promises.rm(path, { force: true });
    await lock.remove();
  }
}
