/** Temporary files without a name. */

import assert from 'node:assert/strict';
import { promises, readdirSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { unnamedFile } from '../../src/os/temporary.js';
import { temporaryFolder } from './paths.js';

/** Handles of this process that are of files in `folder`. */
function opened(folder: string): number {
  const targets = readdirSync('/proc/self/fd').map((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`);
    } catch {
      return ''; // that of the listing
    }
  });
  return targets.filter((target) => target.startsWith(`${folder}/`)).length;
}

test('several files without a name at a time, and a name that another process has left', async (t) => {
  const folder = await temporaryFolder(t);
  const left = join(folder, `.kfd-checkpoint-${process.pid}.tmp`);
  await promises.writeFile(left, 'of a process with the same pid');
  const files = await Promise.all([1, 2, 3].map(() => unnamedFile(folder)));
  assert.equal(opened(folder), 3);
  for (const [index, file] of files.entries()) await file.write(`${index}`, 0);
  assert.equal((await files[0]?.read(Buffer.alloc(1), 0, 1, 0))?.buffer.toString(), '0');
  for (const file of files) await file.close();
  assert.deepEqual(readdirSync(folder), [`.kfd-checkpoint-${process.pid}.tmp`]);
});

test('what others have planted under the name is neither written nor removed', async (t) => {
  const folder = await temporaryFolder(t);
  const precious = join(folder, 'precious');
  await promises.writeFile(precious, 'x');
  const { open } = promises;
  // They cannot know the name; here they do.
  for (const plant of [promises.symlink, promises.copyFile]) {
    t.mock.method(promises, 'open', async (...[name, ...more]: Parameters<typeof open>) => {
      await plant(precious, name as string);
      return open(name, ...more);
    });
    await assert.rejects(unnamedFile(folder), { code: 'EEXIST' });
    t.mock.restoreAll();
  }
  assert.equal(readdirSync(folder).length, 3);
  assert.equal(await promises.readFile(precious, 'utf8'), 'x');
});

test('a file whose name cannot be taken away is closed', async (t) => {
  const folder = await temporaryFolder(t);
  const refusal = new Error('EPERM');
  t.mock.method(promises, 'unlink', () => Promise.reject(refusal));
  await assert.rejects(unnamedFile(folder), refusal);
  assert.equal(opened(folder), 0);
});
