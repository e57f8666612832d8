/** The real program: how it ends when a verb never does. */

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { repository, temporaryFolder } from './paths.js';

const program = join(repository, 'dist/src/cli/main.js');

test('a program that has nothing left to wait for, and no result, has failed', async (t) => {
  const stuck = join(await temporaryFolder(t), 'stuck.mjs');
  // No write is ever finished, and nothing keeps the program alive for it.
  await writeFile(stuck, 'process.stdout.write = () => true;');
  const { status, stderr } = spawnSync(process.execPath, ['--import', stuck, program, 'version'], {
    encoding: 'utf8',
  });
  assert.equal(status, 1);
  assert.match(stderr, /^Error: kfd-checkpoint: ended without a result\nHint: {2}this is a bug/);
});
