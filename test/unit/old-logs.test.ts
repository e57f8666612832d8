import assert from 'node:assert/strict';
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { removeOldLogs } from '../../src/session/old-logs.js';
import { temporaryFolder } from './paths.js';

const log = (day: number, operation: string) =>
  `2026-11-${String(day).padStart(2, '0')}T10-20-30-400Z-${operation}-71.log`;

test('the newest session logs stay, and everything that is no session log', async (t) => {
  const folder = await temporaryFolder(t);
  const others = ['session-stderr.log', 'shim-stderr.log', 'notes', '2026-11-01.log'];
  const logs = [log(1, 'dump'), log(2, 'restore'), log(3, 'criu-dump'), log(10, 'dump')];
  for (const name of [...others, ...logs]) writeFileSync(join(folder, name), '');
  assert.equal(removeOldLogs(folder, 4), 0);
  assert.equal(removeOldLogs(folder, 2), 2);
  assert.deepEqual(readdirSync(folder).sort(), [...others, ...logs.slice(2)].sort());
});
