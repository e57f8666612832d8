import assert from 'node:assert/strict';
import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { momentNow } from '../../src/migrate/clock.js';
import {
  listRecords,
  readRecord,
  removeRecord,
  type SourceRecord,
  writeRecord,
} from '../../src/migrate/journal.js';
import { temporaryFolder } from './paths.js';

const id = '0a'.repeat(16);
const record: SourceRecord = {
  schema_version: 1,
  id,
  side: 'source',
  phase: 'granted',
  container: 'job',
  container_id: 'c0'.repeat(32),
  host: 'root@host-b',
  lease_ms: 1000,
  deadline: { bootId: 'b', ms: 5 },
};

test('a record comes back as it was written, and the last one counts', async (t) => {
  const folder = join(await temporaryFolder(t), 'not/there/yet');
  assert.equal(await readRecord(id, 'source', folder), undefined);
  assert.deepEqual(await listRecords(folder), []);
  await writeRecord({ ...record, phase: 'stopping' }, folder);
  await writeRecord(record, folder);
  assert.deepEqual(await readRecord(id, 'source', folder), record);
  assert.equal(await readRecord(id, 'target', folder), undefined, 'both sides can be on one host');
  assert.deepEqual(await listRecords(folder), [{ id, side: 'source' }]);
  await removeRecord(record, folder);
  assert.deepEqual(await readdir(folder), []);
  await removeRecord(record, folder);
});

test('a migration that was never recorded leaves nothing to remove', async (t) => {
  const folder = join(await temporaryFolder(t), 'not/there/yet');
  await removeRecord(record, folder);
  assert.deepEqual(await listRecords(folder), []);
});

test('a damaged record is an error with a next step, and is listed', async (t) => {
  const folder = await temporaryFolder(t);
  const path = join(folder, `${id}.target.json`);
  const damaged = ['', '{', JSON.stringify(record), JSON.stringify({ ...record, side: 'target' })];
  for (const text of damaged) {
    await writeFile(path, text);
    const refused = { code: 'E_IO', message: `${path}: is damaged` };
    await assert.rejects(readRecord(id, 'target', folder), refused, text);
  }
  await writeFile(join(folder, 'other.json'), '');
  assert.deepEqual(await listRecords(folder), [{ id, side: 'target' }]);
});

test('a record that cannot be written leaves the one before', async (t) => {
  const folder = await temporaryFolder(t);
  await writeRecord(record, folder);
  // The temporary name of the next write is taken by a folder.
  await mkdir(join(folder, `.${id}.source.json.${process.pid}.tmp`));
  await assert.rejects(writeRecord({ ...record, phase: 'given' }, folder));
  assert.equal((await readRecord(id, 'source', folder))?.phase, 'granted');
});

test('the moment is that of the boot', async (t) => {
  const root = await temporaryFolder(t);
  await assert.rejects(momentNow(root), { code: 'E_HOST' });
  await mkdir(join(root, 'proc/sys/kernel/random'), { recursive: true });
  await writeFile(join(root, 'proc/uptime'), '12345.67 9.00\n');
  await writeFile(join(root, 'proc/sys/kernel/random/boot_id'), 'a-boot\n');
  assert.deepEqual(await momentNow(root), { bootId: 'a-boot', ms: 12_345_670 });
  const before = await momentNow();
  const after = await momentNow();
  assert.ok(before.bootId === after.bootId && before.ms <= after.ms && before.ms > 0);
});
