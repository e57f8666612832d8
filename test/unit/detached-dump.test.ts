/** Checkpoints whose pages files are in a folder of their own. */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { readdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { KfdError } from '../../src/errors.js';
import { decodeManifest } from '../../src/manifest/codec.js';
import { rootsOf } from '../../src/manifest/elsewhere.js';
import { type OwnFolder, openOwnFolder } from '../../src/os/own-folder.js';
import { messageType } from '../../src/session/plugin/wire.js';
import { preflight } from '../../src/session/restore/preflight.js';
import { coded, FakeJob, fakeJobs } from './fake-job.js';
import { names } from './forged-image.js';
import { temporaryFolder } from './paths.js';
import { assertWhole, contents, dumpFiles, end, ok, read, started } from './started-dump.js';

const pages = [names.first, names.second];

async function detached(t: TestContext) {
  const folder = await temporaryFolder(t);
  await writeFile(join(folder, 'of somebody else'), '');
  return { folder, all: await started(t, {}, folder) };
}

const ours = async (folder: string) =>
  (await readdir(folder)).filter((name) => name !== 'of somebody else').sort();

const named = (path: string): OwnFolder => ({ path, name: path, close: async () => undefined });

test('pages files go to the folder, and the manifest says that they are not in the image', async (t) => {
  const { folder, all } = await detached(t);
  await read(all);
  await ok(all.ask(messageType.dumpBegin, [1, 0]));
  await dumpFiles(all);
  await ok(all.stage('post-dump'));
  assert.deepEqual(await ours(folder), pages);
  const states = [names.state, names.render];
  assert.deepEqual((await readdir(all.image)).sort(), ['kfd-manifest.json', ...states].sort());
  const manifest = decodeManifest(await readFile(join(all.image, 'kfd-manifest.json')));
  assert.deepEqual(manifest.features.required, ['detached']);
  let asked: readonly string[] = [];
  await assertWhole(t, all, async (roots) => {
    asked = roots;
    return [named(folder)];
  });
  assert.deepEqual(asked, rootsOf(manifest));
  assert.deepEqual(await end(all), [1]);
  await ok(all.ask(messageType.dumpResult, [0]));
  all.worker.kill('SIGKILL');
  await once(all.worker, 'exit');
  assert.equal((await all.session.finish()).outcome, 'sealed');
  assert.deepEqual(await ours(folder), pages, 'they stay with their image');
});

test('a short freeze: contents are in the folder when the tree has gone on', async (t) => {
  const { folder, all } = await detached(t);
  await read(all);
  await ok(all.ask(messageType.dumpBegin, [1, 1]));
  await dumpFiles(all);
  await ok(all.stage('post-dump'));
  assert.deepEqual(await end(all), [2]);
  await ok(all.ask(messageType.dumpUnpaused, []));
  for (const [i, [, bytes]] of contents.entries()) {
    await writeFile(all.paths[i] as string, Buffer.alloc(bytes.length, 0x5a));
  }
  await ok(all.ask(messageType.dumpResult, [0]));
  await assertWhole(t, all, async () => [named(folder)]);
  assert.equal((await all.session.finish()).outcome, 'sealed');
  assert.deepEqual(await ours(folder), pages);
});

test('a checkpoint that fails leaves no pages file in the folder', async (t) => {
  const failed = await detached(t);
  fakeJobs(t, () => {
    const job = new FakeJob();
    setImmediate(() => job.fail(coded('KFD_IO', 'No space left on device')));
    return job;
  });
  await read(failed.all);
  await ok(failed.all.ask(messageType.dumpBegin, [1, 0]));
  await writeFile(join(failed.folder, names.first), 'half of it');
  assert.equal((await failed.all.stage('post-dump')).type, messageType.error);
  assert.deepEqual(await end(failed.all, -1), [0]);
  assert.equal((await failed.all.session.finish()).outcome, 'abandoned');
  assert.deepEqual(await readdir(failed.folder), ['of somebody else']);
});

test('a cancel leaves no pages file in the folder', async (t) => {
  const cancelled = await detached(t);
  fakeJobs(t, () => new FakeJob());
  await read(cancelled.all);
  await ok(cancelled.all.ask(messageType.dumpBegin, [1, 0]));
  await writeFile(join(cancelled.folder, names.second), 'half of it');
  cancelled.all.session.cancel(new KfdError('E_CANCELLED', 'session: cancelled: enough'));
  assert.equal((await cancelled.all.stage('post-dump')).type, messageType.error);
  assert.deepEqual(await end(cancelled.all, -1), [0]);
  await cancelled.all.session.finish();
  assert.deepEqual(await readdir(cancelled.folder), ['of somebody else']);
});

test('a failure of CRIU after the seal leaves no pages file in the folder', async (t) => {
  const sealed = await detached(t);
  await read(sealed.all);
  await ok(sealed.all.ask(messageType.dumpBegin, [1, 0]));
  await dumpFiles(sealed.all);
  await ok(sealed.all.stage('post-dump'));
  assert.deepEqual(await ours(sealed.folder), pages);
  await sealed.all.ask(messageType.dumpResult, [1]);
  await sealed.all.session.finish();
  assert.deepEqual(await readdir(sealed.folder), ['of somebody else']);
  assert.ok(!existsSync(join(sealed.all.image, 'kfd-manifest.json')));
});

test('a restore needs the folder, and takes no other files for those of the image', async (t) => {
  const { folder, all } = await detached(t);
  await read(all);
  await ok(all.ask(messageType.dumpBegin, [1, 0]));
  await dumpFiles(all);
  await ok(all.stage('post-dump'));
  const check = (...folders: readonly string[]) =>
    preflight(all.image, {}, all.hostOptions, async () => folders.map(named));
  await assert.rejects(check(), {
    code: 'E_IMAGE_MISSING',
    message: /^contents: amdgpu-pages-0-0000\.img and 1 more, \d+ bytes, are in a folder/,
  });
  await assert.rejects(check(await temporaryFolder(t)), {
    code: 'E_IMAGE_MISSING',
    message: /amdgpu-pages-0-0000\.img: not in its folder/,
  });
  await assert.rejects(check(folder, await temporaryFolder(t)), { code: 'E_USAGE' });
  const swapped = await temporaryFolder(t);
  for (const [from, to] of [pages, pages.toReversed()] as [string, string][]) {
    await writeFile(join(swapped, to), await readFile(join(folder, from)));
  }
  await assert.rejects(check(swapped), { code: 'E_IMAGE_CORRUPT' });
  await writeFile(join(all.image, names.second), await readFile(join(folder, names.second)));
  await assert.rejects(check(folder), {
    code: 'E_IMAGE_CORRUPT',
    message: /0-0001\.img: in the image, whose contents are elsewhere/,
  });
  await rename(join(all.image, names.second), join(swapped, 'away'));
  assert.equal((await check(folder))?.pages.size, 2);
  // Whoever has the plan keeps the folders open; Node.js closes what nobody has.
  const plan = await preflight(all.image, {}, all.hostOptions, async () => [
    await openOwnFolder(folder),
  ]);
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  for (let i = 0; i < 3; i++) {
    collect();
    await nextTurn(); // finalizers run in one of their own
  }
  const [path = ''] = [...(plan?.pages.values() ?? [])][0] ?? [];
  assert.ok(existsSync(path), path);
  for (const one of plan?.folders ?? []) await one.close();
  assert.ok(!existsSync(path));
});
