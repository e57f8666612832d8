/** Whom the next process of a target ends to take its place. */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { writeRecord } from '../../src/migrate/journal.js';
import { placesBelow } from '../../src/migrate/places.js';
import { reopen } from '../../src/migrate/takeover.js';
import { holder } from './lock-holder.js';
import { firstRecords, id } from './migrate-processes.js';
import { temporaryFolder } from './paths.js';

const setting = (root: string) => ({
  root,
  run: async () => undefined,
  self: ['node'] as const,
  listPages: () => assert.fail('nothing has arrived'),
});

test('a process that plays a recorded target, and has hung, is ended', async (t) => {
  const root = await temporaryFolder(t);
  const places = placesBelow(root);
  await writeRecord({ ...firstRecords.target, phase: 'ended' }, places.journal);
  const child = await holder(t, places.lock(id));
  const { lock } = await reopen(id, setting(root), () => undefined);
  assert.equal(child.signalCode, 'SIGKILL');
  await lock.release();
});

test('without a record it is another migration that removes leftovers, and is waited for', async (t) => {
  const root = await temporaryFolder(t);
  const child = await holder(t, placesBelow(root).lock(id));
  const taken = reopen(id, setting(root), () => undefined);
  await delay(4000);
  assert.equal(child.signalCode, null);
  child.kill('SIGTERM');
  await once(child, 'exit');
  assert.equal(child.signalCode, 'SIGTERM');
  const { lock, side } = await taken;
  assert.equal(side.record.phase, 'ended');
  await lock.release();
});
