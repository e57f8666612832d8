/** The verb that a migration runs for a task of containerd. ctr and our shim are played. */

import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import { mkdir, realpath, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { linkedImage } from '../../src/criu/task-link.js';
import { rootsOf } from '../../src/manifest/elsewhere.js';
import { fieldsOf } from '../../src/protobuf.js';
import { requestedForRestore } from '../../src/session/contents/requests.js';
import { cli } from './cli-context.js';
import { ctrThat, record, task } from './containerd-world.js';
import { imageFiles, soundParts } from './forged-image.js';
import { temporaryFolder } from './paths.js';
import { testServer } from './ttrpc-server.js';

const run = 'run/kfd-checkpoint';

/** A host whose shim answers a checkpoint with `code`, and what it has seen. */
async function host(t: TestContext, code = 0) {
  const root = await realpath(await temporaryFolder(t));
  const ends: boolean[] = [];
  const server = await testServer(t, ({ payload }) => {
    const [, , any] = [...fieldsOf(payload)].map(({ value }) => value);
    const [, options] = [...fieldsOf(any as Buffer)].map(({ value }) => value);
    ends.push([...fieldsOf(options as Buffer)].some(({ number }) => number === 1));
    return { code, message: 'no room' };
  });
  const bundle = join(root, 'run/containerd/io.containerd.runtime.v2.task/default/job');
  await mkdir(bundle, { recursive: true });
  await writeFile(join(bundle, 'kfd-shim'), `${server.path}\n`);
  return { root, ends };
}

test('a round ends nothing, and leaves no image', async (t) => {
  for (const code of [0, 13]) {
    const { root, ends } = await host(t, code);
    const folder = join(root, 'task');
    const done = await cli(['migrate-task', '--root', root, 'round', 'job', folder]);
    assert.deepEqual([done.code === 0, ends], [code === 0, [false]], done.stderr);
    assert.equal(existsSync(folder), false);
  }
});

/** An image directory without its contents, which are in a folder. */
async function detached(folder: string) {
  const parts = soundParts();
  parts.manifest.features = { required: ['detached'], optional: [] };
  const [image, contents] = [join(folder, 'checkpoint'), join(folder, 'contents')];
  for (const one of [image, contents]) await mkdir(one, { recursive: true, mode: 0o700 });
  for (const [name, bytes] of Object.entries(imageFiles(parts))) {
    await writeFile(join(name.startsWith('amdgpu-pages') ? contents : image, name), bytes);
  }
  return { image, contents, roots: rootsOf(parts.manifest) };
}

test('a restore and a start: sessions find the contents by their digests meanwhile', async (t) => {
  const { root } = await host(t);
  const folder = join(root, 'kept');
  const { image, contents, roots } = await detached(folder);
  await writeFile(join(folder, 'changes.tar.gz'), 'layer');
  await writeFile(join(folder, 'record.json'), JSON.stringify(record));
  const found: unknown[] = [];
  const { run: ctr } = ctrThat(() => '');
  const verb = (...words: string[]) =>
    cli(['migrate-task', '--root', root, ...words], {
      run: async (command, args, options) => {
        if (command === 'tar') await writeFile(args[3] ?? '', '');
        if (command === 'tar') return { status: 0, stdout: '', stderr: '' };
        if (/^(task start|container restore)/.test(args.slice(2).join(' '))) {
          const given = await requestedForRestore(process.pid, roots, join(root, run));
          found.push([linkedImage(task, join(root, run)), ...given.map(({ name }) => name)]);
          for (const one of given) await one.close();
        }
        return ctr(command, args, options);
      },
    });
  for (const words of [
    ['restore', '--contents', contents, 'job', folder],
    ['start', '--contents', contents, 'job', folder, root],
  ]) {
    const done = await verb(...words);
    assert.equal(done.code, 0, done.stderr);
  }
  assert.deepEqual(found, [
    [image, contents],
    [image, contents],
  ]);
  assert.deepEqual(existsSync(join(root, run)) ? readdirSync(join(root, run)) : [], []);
});
