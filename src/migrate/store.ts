/** The place on the target for all that arrives: memory, or a folder that the source has named. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { promises } from 'node:fs';
import { dirname, join } from 'node:path';
import { missing, type Run } from '../os/exec.js';
import { lockOfDead, removeDeadFiles } from './leftovers.js';
import { holdMemory, releaseMemory } from './memory.js';
import { archiveName, type Places, placesBelow } from './places.js';

/** A folder of the source's choice, or so many bytes of memory at most. */
export type StorePlace = { readonly folder: string } | { readonly bytes: number };

interface StoreSetting {
  readonly root: string;
  readonly run: Run;
  /** This program: Node.js and its arguments up to the verb. */
  readonly self: readonly string[];
}

/**
 * Makes the place for a migration, after what nobody needs any more was removed. The caller has the lock. Returns its
 * folder. Throws E_HOST, Node's error.
 */
export async function prepareStore(
  id: string,
  place: StorePlace,
  setting: StoreSetting,
): Promise<string> {
  const { root, run } = setting;
  const places = placesBelow(root);
  await removeDeadFiles(places, run);
  const folder = 'folder' in place ? join(place.folder, id) : places.memory(id);
  if ('folder' in place) {
    await promises.mkdir(place.folder, { recursive: true, mode: 0o700 });
    await removeLeftovers(place.folder, places, run);
    await promises.mkdir(folder, { mode: 0o700 });
  } else {
    await startSweeper(id, setting);
    await holdMemory(folder, place.bytes, run);
  }
  const link = places.contents(id);
  await promises.mkdir(dirname(link), { recursive: true, mode: 0o700 });
  await promises.symlink(join(folder, archiveName), link);
  return folder;
}

/** Contents whose migration has neither a record nor a process. Throws Node's error. */
export async function removeLeftovers(store: string, places: Places, run: Run): Promise<void> {
  const names = await promises.readdir(store);
  for (const id of names.filter((name) => /^[0-9a-f]{32}$/.test(name))) {
    const lock = await lockOfDead(id, places);
    if (lock === undefined) continue;
    await removeContents(id, join(store, id), places, run);
    await lock.remove();
  }
}

/** Throws E_HOST, Node's error. */
export async function removeContents(
  id: string,
  folder: string,
  places: Places,
  run: Run,
): Promise<void> {
  await promises.rm(places.contents(id), { force: true });
  if (folder === places.memory(id)) await releaseMemory(folder, run);
  // A tar that still writes there has lost its input, and ends.
  else await promises.rm(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
}

/** The hidden verb that removes what is left. */
export const sweepVerb = 'migrate-sweep';

/**
 * Waits in the kernel until nobody plays the migration. A killed process releases no memory: what has neither a record
 * nor a process then is removed. Where there is a record, the guard or the next process goes on with it.
 */
const script = `flock -x "$1" true
[ ! -e "$2" ] || { shift 2; exec "$@"; }`;

/** It lives in a session of its own, and does not notice that ssh ends. Throws E_HOST without a shell. */
async function startSweeper(id: string, { root, self }: StoreSetting): Promise<void> {
  const places = placesBelow(root);
  const words = [places.lock(id), places.memory(id), ...self, sweepVerb, '--root', root];
  const child = spawn('sh', ['-c', script, 'sh', ...words], {
    detached: true,
    cwd: '/',
    stdio: 'ignore',
  });
  await once(child, 'spawn').catch((error: Error) => {
    throw missing('sh', error);
  });
  child.unref();
}
