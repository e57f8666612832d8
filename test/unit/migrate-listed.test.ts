/** What `sessions` and `cancel` say of a migration whose process does not answer, or has ended. */

import assert from 'node:assert/strict';
import { mkdir } from 'node:fs/promises';
import { createServer } from 'node:net';
import { type TestContext, test } from 'node:test';
import { writeRecord } from '../../src/migrate/journal.js';
import { placesBelow } from '../../src/migrate/places.js';
import { cli, errorIn } from './cli-context.js';
import { firstRecords, id } from './migrate-processes.js';
import { temporaryFolder } from './paths.js';

/** A process with the socket of a source, and no good answer. */
async function strangeSource(t: TestContext, root: string): Promise<void> {
  const places = placesBelow(root);
  await mkdir(places.run, { recursive: true });
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.once('data', () => socket.end('no\n'));
  });
  t.after(() => server.close());
  await new Promise<void>((resolve) => server.listen(places.control(id, 'source'), resolve));
}

test('one whose process gives no answer is not called interrupted', async (t) => {
  const root = await temporaryFolder(t);
  await writeRecord({ ...firstRecords.source, phase: 'stopping' }, placesBelow(root).journal);
  const dead = await cli(['sessions', '--root', root]);
  assert.match(dead.stdout, /stopping, interrupted/);
  await strangeSource(t, root);
  const { code, stdout, stderr } = await cli(['sessions', '--root', root]);
  assert.equal(code, 1, stderr);
  assert.equal(stdout, '');
  assert.match(stderr, /an answer is no JSON/);
  const told = await cli(['cancel', 'job', '--root', root, '--format', 'json']);
  assert.equal(errorIn(told.stderr).code, 'E_PROTOCOL');
});

test('one whose process has ended on the target names the whole command for the source', async (t) => {
  const root = await temporaryFolder(t);
  await writeRecord(firstRecords.target, placesBelow(root).journal);
  const { code, stderr } = await cli(['cancel', 'job', '--root', root, '--format', 'json']);
  assert.equal(code, 4);
  assert.equal(errorIn(stderr).hint, 'run "kfd-checkpoint migrate job HOST" again on the source');
});
