/** A container whose checkpoint with a parent was interrupted after it had stopped: its image is in place. */

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { verifyCheckpoint } from '../../src/archive/verify.js';
import { decodeManifest } from '../../src/manifest/codec.js';
import { parentIndexes } from '../../src/session/contents/parent.js';
import { entriesOf, tarOf, unpackTo } from './archive-builder.js';
import { cli, fakeRun } from './cli-context.js';
import { checkpoint, first, names, second, services, walk } from './drained-archive.js';
import { temporaryFolder } from './paths.js';
import { bentHost } from './sysfs-tree.js';

const id = 'f00dfeed00112233445566778899aabbccddeeff00112233445566778899aabb';

/** The bundle of a container, stopped, with a parent beside. */
async function interrupted(t: TestContext) {
  const folder = await temporaryFolder(t);
  const base = join(folder, 'base.tar');
  await writeFile(base, await tarOf(entriesOf(await checkpoint(t, first))));
  const bundle = join(folder, id, 'userdata');
  const run = join(folder, 'run');
  const inspected = JSON.stringify([{ Id: id, StaticDir: bundle, Name: 'job' }]);
  const taken = await cli(['checkpoint', '--parent', base, '--run', run, 'job', '-e', 'x.tar'], {
    native: services,
    run: fakeRun({ 'podman container': inspected }),
    runThrough: async () => {
      const indexes = await parentIndexes(process.pid, undefined, run);
      const files = await checkpoint(t, second, indexes);
      const { 'config.dump': _, 'spec.dump': spec = '', ...others } = files;
      await unpackTo(bundle, { ...others, 'config.json': spec });
      return 137; // podman was killed
    },
  });
  const restore = async (...args: string[]) => {
    let given: readonly string[] | undefined;
    const root = await bentHost(t, 'two-gpus', {});
    const result = await cli(['restore', '--quiet', '--root', root, ...args, 'job', '--keep'], {
      native: services,
      run: fakeRun({ 'podman container': inspected }),
      runThrough: async (_, words) => {
        given = words;
        return 0;
      },
    });
    return { ...result, given };
  };
  return { base, bundle, taken, restore, image: join(bundle, 'checkpoint') };
}

async function assertWhole(t: TestContext, bundle: string): Promise<void> {
  const report = await verifyCheckpoint(bundle, { ...walk, verifier: services.verifier() });
  assert.deepEqual([report.problems, report.files.flatMap(({ problems }) => problems)], [[], []]);
  const image = join(bundle, 'checkpoint');
  const manifest = decodeManifest(await readFile(join(image, 'kfd-manifest.json')));
  assert.equal(manifest.parent, null);
  const expected = await checkpoint(t, second);
  for (const name of names) {
    const is = await readFile(join(image, name));
    assert.ok(is.equals(expected[`checkpoint/${name}`] as Buffer), name);
  }
}

test('the command that failed says how the container comes back, and that brings it back', async (t) => {
  const { base, bundle, taken, restore, image } = await interrupted(t);
  assert.equal(taken.code, 137);
  assert.ok(taken.stderr.includes(`kfd-checkpoint restore --parent ${base} job\n`), taken.stderr);
  await mkdir(join(image, 'folder'));
  await writeFile(join(image, 'folder/file'), 'x');
  await symlink('../pre-checkpoint', join(image, 'parent')); // as CRIU makes it after a pre-dump
  const before = (await readdir(image)).sort();
  const alone = await restore();
  assert.deepEqual([alone.code, alone.given], [4, undefined]);
  assert.match(alone.stderr, /--parent PARENT ARCHIVE\|CONTAINER/);
  const { code, stderr, given } = await restore('--parent', base);
  assert.equal(code, 0, stderr);
  assert.deepEqual(given, ['container', 'restore', '--keep', id]);
  assert.deepEqual((await readdir(image)).sort(), before);
  await rm(join(image, 'parent'));
  await assertWhole(t, bundle);
  assert.equal(await readFile(join(image, 'folder/file'), 'utf8'), 'x');
  assert.deepEqual(
    (await readdir(bundle)).filter((name) => name.startsWith('.')),
    [],
  );
  // The image is whole now: no parent is needed, and none is taken.
  assert.equal((await restore()).code, 0);
  assert.equal((await restore('--parent', base)).code, 2);
});

test('interrupted between the two renames, the image is the old one again, and is put together then', async (t) => {
  const { base, bundle, restore, image } = await interrupted(t);
  await rename(image, join(bundle, '.kfd-checkpoint-last'));
  await mkdir(join(bundle, '.kfd-checkpoint-next'));
  const { code, stderr } = await restore('--parent', base);
  assert.equal(code, 0, stderr);
  await assertWhole(t, bundle);
  assert.ok(!existsSync(join(bundle, '.kfd-checkpoint-next')));
});

test('what an exchange that never came to its renames has left goes with the next restore', async (t) => {
  const { bundle, restore } = await interrupted(t);
  await mkdir(join(bundle, '.kfd-checkpoint-next'));
  assert.equal((await restore()).code, 4);
  assert.ok(!existsSync(join(bundle, '.kfd-checkpoint-next')));
});

test('a wrong parent changes nothing', async (t) => {
  const { base, bundle, restore, image } = await interrupted(t);
  const before = await readFile(join(image, 'kfd-manifest.json'));
  await rm(base);
  await writeFile(base, await tarOf(entriesOf(await checkpoint(t, second))));
  const { code, given } = await restore('--parent', base);
  assert.deepEqual([code, given], [4, undefined]);
  assert.ok((await readFile(join(image, 'kfd-manifest.json'))).equals(before));
  assert.deepEqual(
    (await readdir(bundle)).filter((name) => name.startsWith('.')),
    [],
  );
});
