/** The manifest in an image directory: written, found, removed. */

import assert from 'node:assert/strict';
import { mkdir, open, readdir, rmdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import {
  imageState,
  readManifest,
  removeImageFiles,
  writeManifest,
} from '../../src/manifest/image.js';
import { pagesFileName, stateFileName } from '../../src/manifest/names.js';
import { sampleManifest } from './manifest-sample.js';
import { fixtures, temporaryFolder } from './paths.js';

test('an invalid document is never written', async (t) => {
  const folder = await temporaryFolder(t);
  const wrong: readonly [object, RegExp][] = [
    [{ gpus: [] }, /^kfd-manifest\.json: gpus: /],
    [{ created: 'yesterday' }, /^kfd-manifest\.json: created: not an RFC 3339 time$/],
    [{ processes: [] }, /^kfd-manifest\.json: processes: /],
    [{ files: [] }, /^kfd-manifest\.json: processes\.0\.state_file: not among files; buffers/],
  ];
  for (const [members, message] of wrong) {
    const bad = { ...sampleManifest(), ...members };
    await assert.rejects(writeManifest(folder, bad), { code: 'E_INTERNAL', message });
  }
  assert.deepEqual(await readdir(folder), []);
});

test('an image directory is none, unsealed or sealed', async (t) => {
  const folder = await temporaryFolder(t);
  await writeFile(join(folder, 'inventory.img'), 'x');
  assert.deepEqual(await imageState(folder), { state: 'none' });
  await assert.rejects(readManifest(folder), { code: 'E_IMAGE_MISSING' });
  await writeFile(join(folder, stateFileName(0)), '');
  await writeFile(join(folder, pagesFileName(0, 10)), '');
  assert.deepEqual(await imageState(folder), {
    state: 'unsealed',
    files: ['amdgpu-pages-0-000a.img', 'kfd-state-0.img'],
  });
  await writeManifest(folder, sampleManifest());
  assert.deepEqual(await imageState(folder), { state: 'sealed', manifest: sampleManifest() });
  await assert.rejects(imageState(join(folder, 'none')), { code: 'E_IMAGE_MISSING' });
});

test('a directory that its caller has removed is told', async (t) => {
  const folder = join(await temporaryFolder(t), 'image');
  await mkdir(folder);
  // The session has it open.
  const handle = await open(folder, 'r');
  t.after(() => handle.close());
  await rmdir(folder);
  await assert.rejects(writeManifest(`/proc/self/fd/${handle.fd}`, sampleManifest()), {
    code: 'E_IMAGE_MISSING',
    message: /was removed before it was complete/,
  });
});

test('removal takes our files and leaves those of CRIU', async (t) => {
  const folder = await temporaryFolder(t);
  await writeManifest(folder, sampleManifest());
  for (const name of [
    'kfd-state-0.img',
    'inventory.img',
    'pages-1.img',
    '.kfd-manifest.json.17.tmp',
  ]) {
    await writeFile(join(folder, name), '');
  }
  assert.equal((await removeImageFiles(folder))[0], 'kfd-manifest.json');
  assert.deepEqual((await readdir(folder)).sort(), ['inventory.img', 'pages-1.img']);
});

test('removal says what it cannot remove, and leaves what another one has removed', async (t) => {
  const folder = await temporaryFolder(t);
  await mkdir(join(folder, stateFileName(0)));
  await assert.rejects(removeImageFiles(folder), { syscall: 'unlink' });
  const both = join(folder, 'both');
  await mkdir(both);
  const names = Array.from({ length: 60 }, (_, process) => stateFileName(process));
  for (const name of names) await writeFile(join(both, name), '');
  await Promise.all([removeImageFiles(both), removeImageFiles(both)]);
  assert.deepEqual(await readdir(both), []);
  assert.deepEqual(await removeImageFiles(both), []);
});

test('a manifest that is no regular file is refused', async (t) => {
  const folder = await temporaryFolder(t);
  const refusal = { code: 'E_IMAGE_CORRUPT', message: /kfd-manifest\.json: not a regular file$/ };
  await mkdir(join(folder, 'kfd-manifest.json'));
  await assert.rejects(imageState(folder), refusal);
  const linked = join(folder, 'linked');
  await mkdir(linked);
  await symlink(join(fixtures, 'manifest-v1/kfd-manifest.json'), join(linked, 'kfd-manifest.json'));
  await assert.rejects(imageState(linked), refusal);
});

test('a folder that cannot be looked into is not one without an image', async (t) => {
  const folder = join(await temporaryFolder(t), 'n'.repeat(300));
  await assert.rejects(imageState(folder), { code: 'ENAMETOOLONG' });
  await assert.rejects(readManifest(folder), { code: 'ENAMETOOLONG' });
});
