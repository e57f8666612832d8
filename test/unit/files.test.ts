/** Reading files that somebody else may have made: bounds, special files, links, and whose error it is. */

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { readBounded } from '../../src/os/files.js';
import { Folder } from '../../src/os/folder.js';
import { temporaryRoot } from '../../src/os/temporary.js';
import { temporaryFolder } from './paths.js';

test('a file is read to its bound; what is none has the code that the caller names', async (t) => {
  const folder = await temporaryFolder(t);
  const [file, fifo] = [join(folder, 'file'), join(folder, 'fifo')];
  await writeFile(file, '1234');
  execFileSync('mkfifo', [fifo]);
  assert.equal((await readBounded(file, 4)).toString(), '1234');
  await assert.rejects(readBounded(file, 3), { code: 'E_IO', message: /larger than 3 bytes/ });
  for (const path of [folder, fifo, '/dev/null']) {
    await assert.rejects(readBounded(path, 9), { code: 'E_IO', message: /not a regular file/ });
    await assert.rejects(readBounded(path, 9, 'E_IMAGE_CORRUPT'), { code: 'E_IMAGE_CORRUPT' });
  }
  await assert.rejects(readBounded(join(folder, 'none'), 9), { code: 'ENOENT' });
});

test('in a folder nothing but its own regular files is opened', async (t) => {
  const path = await temporaryFolder(t);
  await writeFile(join(path, 'file'), 'own');
  await mkdir(join(path, 'folder'));
  await symlink('file', join(path, 'link'));
  await symlink('folder', join(path, 'way'));
  execFileSync('mkfifo', [join(path, 'fifo')]);
  const folder = await Folder.open(path);
  t.after(() => folder.close());
  assert.deepEqual(await folder.names(), ['fifo', 'file', 'folder', 'link', 'way']);
  const kinds = await Promise.all((await folder.names()).map((name) => folder.kindOf(name)));
  assert.deepEqual(kinds, ['special', 'file', 'folder', 'link', 'link']);
  const file = await folder.file('file', 'E_IO');
  assert.equal((await file.readFile()).toString(), 'own');
  await file.close();
  for (const name of ['fifo', 'folder', 'link', 'way']) {
    await assert.rejects(folder.file(name, 'E_CONFIG'), { code: 'E_CONFIG' }, name);
  }
  await (await folder.folder('folder')).close();
  await assert.rejects(folder.folder('way'), { code: 'ENOTDIR' });
  await assert.rejects(folder.folder('file'), { code: 'ENOTDIR' });
});

test('temporary files go beside what they are for, or where the environment says', (t) => {
  const { TMPDIR: before } = process.env;
  t.after(() => {
    if (before === undefined) delete process.env['TMPDIR'];
    else process.env['TMPDIR'] = before;
  });
  process.env['TMPDIR'] = '/elsewhere';
  assert.equal(temporaryRoot('/here'), '/elsewhere');
  process.env['TMPDIR'] = '';
  assert.equal(temporaryRoot('/here'), '/here');
  delete process.env['TMPDIR'];
  assert.equal(temporaryRoot('/here'), '/here');
});
