/** What a migration asks of the engine of a container. */

import assert from 'node:assert/strict';
import { mkdir, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { engineOf } from '../../src/migrate/engines.js';
import { fakeRun } from './cli-context.js';
import { temporaryFolder } from './paths.js';

const id = 'c0'.repeat(32);

function podman(outputs: Readonly<Record<string, string | number>> = {}) {
  const self = ['node', 'kfd-checkpoint'] as const;
  return engineOf({ container_id: id }, { root: '/r', run: fakeRun(outputs), self });
}

const saved = ['podman', 'container', 'checkpoint'];
const exported = ['--compress', 'none', '--export', '/proc/self/fd/4', id];
const restored = ['node', 'kfd-checkpoint', 'restore', '--root', '/r', '--quiet'];

test('podman: checkpoints that end the container, and others', () => {
  const engine = podman();
  assert.deepEqual(engine.checkpoint(false), [...saved, ...exported]);
  assert.deepEqual(engine.checkpoint(true), [...saved, '--with-previous', ...exported]);
  assert.deepEqual(engine.round(), [...saved, '--leave-running', id]);
  const ahead = ['--pre-checkpoint', '--ignore-rootfs', '--ignore-volumes'];
  assert.deepEqual(engine.memoryAhead(), [...saved, ...ahead, ...exported]);
});

test('podman: a restore in place, and one of what has arrived', async (t: TestContext) => {
  const engine = podman();
  const contents = ['--contents', '/kept/contents'];
  const json = ['--format', 'json'];
  assert.deepEqual(engine.bringBack(contents), [...restored, ...json, ...contents, id]);
  const folder = await temporaryFolder(t);
  const arrived = { folder, contents, choices: ['--gpu-map', '1=2'] };
  const words = [...restored, ...json, '--gpu-map', '1=2', ...contents];
  const archive = join(folder, 'checkpoint.tar');
  assert.deepEqual(engine.start(arrived), [...words, archive]);
  const previous = join(folder, 'pre-checkpoint.tar');
  await writeFile(previous, '');
  assert.deepEqual(engine.start(arrived), [...words, archive, '--import-previous', previous]);
});

test('podman: what a pre-checkpoint leaves in the bundle goes', async (t: TestContext) => {
  const bundle = await temporaryFolder(t);
  const left = join(bundle, 'pre-checkpoint');
  await mkdir(left);
  await podman({ 'podman container': `${bundle}\n` }).removeMemoryAhead();
  await assert.rejects(stat(left), { code: 'ENOENT' });
  await podman({ 'podman container': 125 }).removeMemoryAhead();
});
