/** Migrations that are found again, and containers of which the engine does not say what they do. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { unfinishedMigration } from '../../src/cli/migrate-unfinished.js';
import { KfdError } from '../../src/errors.js';
import { writeRecord } from '../../src/migrate/journal.js';
import { placesBelow } from '../../src/migrate/places.js';
import { runsIfUnknown } from '../../src/migrate/takeover.js';
import { firstRecords } from './migrate-processes.js';
import { temporaryFolder } from './paths.js';

test('a migration that has not ended is found by engine and namespace, too', async (t) => {
  const root = await temporaryFolder(t);
  const { journal } = placesBelow(root);
  const phase = 'stopping' as const;
  await writeRecord({ ...firstRecords.source, phase }, journal);
  const found = (engine: 'podman' | 'containerd', namespace?: string) =>
    unfinishedMigration('job', 'b', { root, engine, ...(namespace && { namespace }) });
  assert.equal((await found('podman'))?.id, firstRecords.source.id);
  assert.equal(await found('containerd'), undefined);
  const task = {
    ...firstRecords.source,
    id: '6d'.repeat(16),
    phase,
    engine: 'containerd' as const,
  };
  await writeRecord({ ...task, namespace: 'work' }, journal);
  assert.equal((await found('containerd', 'work'))?.id, task.id);
  assert.equal(await found('containerd'), undefined);
  assert.equal((await found('podman'))?.id, firstRecords.source.id);
});

test('when the lease is over, a container of which nothing is known counts as running', async () => {
  assert.equal(await runsIfUnknown(async () => 'none'), 'none');
  const silent = async () => {
    throw new KfdError('E_TIMEOUT', 'podman: container inspect did not end in time');
  };
  assert.equal(await runsIfUnknown(silent), 'runs');
});
