/** Files of migrations in /run: what is dead goes, what is undecided or played stays. */

import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { link, mkdir, rename, utimes, writeFile } from 'node:fs/promises';
import { test } from 'node:test';
import { Control } from '../../src/migrate/control.js';
import { writeRecord } from '../../src/migrate/journal.js';
import {
  removeDeadContents,
  removeDeadFiles,
  removeDeadSockets,
  removeFiles,
  removeIfEmpty,
} from '../../src/migrate/leftovers.js';
import { type Places, placesBelow } from '../../src/migrate/places.js';
import type { Run } from '../../src/os/exec.js';
import { Lock } from '../../src/os/lock.js';
import { firstRecords } from './migrate-processes.js';
import { temporaryFolder } from './paths.js';

const [dead, played, owned] = ['1a'.repeat(16), '2b'.repeat(16), '3c'.repeat(16)] as const;
/** Nothing is mounted in these tests. */
const noMount: Run = () => assert.fail('nothing is mounted');
const kinds = ['lock', 'work', 'log', 'log.guard', 'contents', 'fifo', 'target'];

test('a migration without record and process leaves nothing, others keep all', async (t) => {
  const places = placesBelow(await temporaryFolder(t));
  await removeDeadFiles(places, noMount);
  await mkdir(places.run, { recursive: true });
  for (const id of [dead, played, owned])
    for (const kind of kinds) await writeFile(`${places.run}/${id}.${kind}`, 'x');
  for (const id of [dead, played, owned]) {
    await mkdir(`${places.memory(id)}/contents`, { recursive: true });
    await writeFile(`${places.memory(id)}/contents/pages`, 'x');
  }
  const ofContainer = `${'4d'.repeat(32)}.log`;
  await writeFile(`${places.run}/${ofContainer}`, 'of a source');
  await writeRecord({ ...firstRecords.target, id: owned, phase: 'owned' }, places.journal);
  // Both sides may be on this host. The source brings its container back by itself.
  await writeRecord({ ...firstRecords.source, id: dead, phase: 'returning' }, places.journal);
  const lock = await Lock.tryTake(places.lock(played));
  await removeDeadFiles(places, noMount);
  const kept = [played, owned].flatMap((id) => [...kinds, 'memory'].map((kind) => `${id}.${kind}`));
  assert.deepEqual(readdirSync(places.run).sort(), [...kept, ofContainer].sort());
  await lock?.release();
});

test('of a migration that only has its source here, nothing is touched', async (t) => {
  const places = placesBelow(await temporaryFolder(t));
  await mkdir(places.run, { recursive: true });
  await writeFile(places.control(played, 'source'), '');
  const changed = () => statSync(places.run, { bigint: true }).mtimeNs;
  const before = changed();
  await removeDeadFiles(places, noMount);
  // No lock came and went: the target of that migration may want it at this moment.
  assert.equal(changed(), before);
});

test('a migration that is recorded while others are removed keeps its contents and its files', async (t) => {
  const places = placesBelow(await temporaryFolder(t));
  await mkdir(places.journal, { recursive: true });
  const isRecorded = (side: 'source' | 'target') =>
    writeFileSync(`${places.journal}/${owned}.${side}.json`, '{}');
  const keeping: Places = {
    ...places,
    get kept() {
      isRecorded('source');
      mkdirSync(places.keptOf(owned), { recursive: true });
      return places.kept;
    },
  };
  await removeDeadContents(keeping);
  assert.deepEqual(readdirSync(places.kept), [owned]);

  await mkdir(places.run, { recursive: true });
  await writeFile(places.log(owned), 'x');
  const lock = (id: string) => {
    isRecorded('target');
    return places.lock(id);
  };
  await removeDeadFiles({ ...places, lock }, noMount);
  assert.ok(existsSync(places.log(owned)));
});

test('the files of one side go, but for a lock that podman still has', async (t) => {
  const places = placesBelow(await temporaryFolder(t));
  const work = await Lock.tryTake(places.work(dead));
  await writeFile(places.log(dead), 'x');
  await removeFiles(dead, places, noMount);
  assert.deepEqual(readdirSync(places.run), [`${dead}.work`]);
  await work?.release();
  await removeFiles(dead, places, noMount);
  assert.deepEqual(readdirSync(places.run), []);
});

test('contents that a source has kept go when nobody will bring its container back', async (t) => {
  const places = placesBelow(await temporaryFolder(t));
  await removeDeadContents(places);
  for (const name of [dead, owned, 'of somebody else'])
    await mkdir(`${places.kept}/${name}`, { recursive: true });
  await writeRecord({ ...firstRecords.source, id: owned, phase: 'stranded' }, places.journal);
  await writeRecord({ ...firstRecords.target, id: dead }, places.journal);
  await removeDeadContents(places);
  assert.deepEqual(readdirSync(places.kept).sort(), [owned, 'of somebody else'].sort());
});

test('the socket of a source that was killed goes when it is old, and empty cgroups of guards', async (t) => {
  const places = placesBelow(await temporaryFolder(t));
  await removeDeadSockets(places);
  const status = () => assert.fail('nobody asks');
  for (const id of [dead, played]) {
    const control = await Control.open(places.control(id, 'source'), {
      status,
      cancel: () => undefined,
    });
    // What a killed process leaves is a name that nobody listens at.
    const kept = `${places.run}/kept`;
    await link(places.control(id, 'source'), kept);
    await control.close();
    await rename(kept, places.control(id, 'source'));
  }
  await utimes(places.control(dead, 'source'), 0, 0);
  await removeDeadSockets(places);
  assert.deepEqual(readdirSync(places.run), [`${played}.source`]);
  await mkdir(`${places.guardCgroups}/migrate-${dead}`, { recursive: true });
  await mkdir(`${places.guardCgroups}/4711`);
  await removeDeadFiles(places, noMount);
  assert.deepEqual(readdirSync(places.guardCgroups), ['4711']);
});

test('a log in which nothing was written goes', async (t) => {
  const places = placesBelow(await temporaryFolder(t));
  await mkdir(places.run, { recursive: true });
  const path = places.guardLog(dead);
  await removeIfEmpty(path);
  await writeFile(path, '{}\n');
  await removeIfEmpty(path);
  assert.deepEqual(readdirSync(places.run), [`${dead}.log.guard`]);
  await writeFile(path, '');
  await removeIfEmpty(path);
  assert.deepEqual(readdirSync(places.run), []);
});
