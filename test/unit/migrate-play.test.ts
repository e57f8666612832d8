/** The end of a migration in the source's process: what it has found out is told, and its lock goes. */

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { type TestContext, test } from 'node:test';
import { Play } from '../../src/cli/migrate-play.js';
import { placesBelow } from '../../src/migrate/places.js';
import { run } from '../../src/os/exec.js';
import { firstRecords } from './migrate-processes.js';
import { temporaryFolder } from './paths.js';

const who = { ...firstRecords.source, host: 'b' };
const { signal } = new AbortController();

/** A host whose journal cannot be read. */
async function withoutJournal(t: TestContext) {
  const root = await temporaryFolder(t);
  const places = placesBelow(root);
  await mkdir(dirname(places.journal), { recursive: true });
  await symlink('migrations', places.journal);
  await mkdir(places.run, { recursive: true });
  await writeFile(places.log(who.container_id), 'of podman');
  return { root, places };
}

test('a journal that cannot be read does not hide the end, and keeps no lock', async (t) => {
  const { root, places } = await withoutJournal(t);
  const play = <T>(work: () => Promise<T>) =>
    Play.during(who, 'asking', root, { signal, run }, work);
  assert.equal(await play(async () => 'it has moved'), 'it has moved');
  assert.equal(existsSync(places.lock(who.container_id)), false);
  const stranded = new Error('cannot be brought back');
  await assert.rejects(
    play(async () => {
      throw stranded;
    }),
    stranded,
  );
  assert.equal(existsSync(places.lock(who.container_id)), false);
  // It may be recorded: the next process reads what podman has printed.
  assert.ok(existsSync(places.log(who.container_id)));
});
