/** A container that stands still, and of which podman says that it runs. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { PodmanContainer } from '../../src/migrate/podman.js';
import type { Run } from '../../src/os/exec.js';
import { temporaryFolder } from './paths.js';

const id = 'c0'.repeat(32);

/** The container, and what its cgroup says of the freeze. podman's word is `state`, which its verbs change. */
async function frozen(t: TestContext, name: string, inner = '', state = 'running') {
  const root = await temporaryFolder(t);
  const folder = join(root, 'sys/fs/cgroup', name);
  for (const one of new Set([folder, join(folder, inner)])) {
    await mkdir(one, { recursive: true });
    await writeFile(join(one, 'cgroup.freeze'), '0');
  }
  const path = join(folder, inner, 'cgroup.freeze');
  await writeFile(path, '1');
  await writeFile(join(folder, inner, 'cgroup.events'), 'populated 1\nfrozen 1\n');
  let word = state;
  const calls: string[] = [];
  const run: Run = async (_, [, verb = '']) => {
    calls.push(verb);
    if (verb === 'inspect') return { status: 0, stdout: `${word}\n`, stderr: '' };
    if (verb === 'pause') word = 'paused';
    if (verb === 'unpause') word = 'running';
    return { status: 0, stdout: '', stderr: '' };
  };
  const container = new PodmanContainer(id, run, root);
  return { container, calls, freeze: () => readFileSync(path, 'utf8') };
}

for (const [name, inner] of [
  [`libpod_parent/libpod-${id}`, ''],
  [`machine.slice/libpod-${id}.scope`, 'container'],
] as const) {
  test(`a freeze that podman does not know of is undone: ${name}`, async (t) => {
    const { container, calls, freeze } = await frozen(t, name, inner);
    await container.unpause();
    assert.equal(freeze(), '0');
    assert.equal(calls.includes('unpause'), false, 'podman would refuse');
  });
}

test('one that podman knows of is undone by podman first', async (t) => {
  const { container, calls, freeze } = await frozen(t, `libpod_parent/libpod-${id}`, '', 'paused');
  await container.unpause();
  assert.deepEqual(calls, ['inspect', 'unpause', 'inspect']);
  assert.equal(freeze(), '0');
});

test('a stopped container is left alone', async (t) => {
  const { container, freeze } = await frozen(t, `libpod_parent/libpod-${id}`, '', 'exited');
  await container.unpause();
  assert.equal(freeze(), '1');
});

test('who may not run a container pauses it by podman: whoever froze it may let it go on', async (t) => {
  const { container, calls } = await frozen(t, `libpod_parent/libpod-${id}`);
  assert.equal(await container.state(), 'runs');
  await container.pause();
  assert.ok(calls.includes('pause'));
  assert.equal(await container.state(), 'paused');
});

test('a frozen cgroup of another container is not touched', async (t) => {
  const { container, freeze } = await frozen(t, `libpod_parent/libpod-${'d1'.repeat(32)}`);
  await container.unpause();
  assert.equal(freeze(), '1');
});
