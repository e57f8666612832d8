/** A container that stands still, and of which podman says that it runs. */

import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { PodmanContainer } from '../../src/migrate/podman.js';
import type { Run } from '../../src/os/exec.js';
import { temporaryFolder } from './paths.js';

const id = 'c0'.repeat(32);

async function frozen(t: TestContext, name: string, inner = '') {
  const root = await temporaryFolder(t);
  const folder = join(root, 'sys/fs/cgroup', name);
  for (const path of new Set([folder, join(folder, inner)])) {
    await mkdir(path, { recursive: true });
    await writeFile(join(path, 'cgroup.freeze'), '0');
    await writeFile(join(path, 'cgroup.events'), 'populated 1\nfrozen 0\n');
  }
  const at = join(folder, inner);
  await writeFile(join(at, 'cgroup.freeze'), '1');
  await writeFile(join(at, 'cgroup.events'), 'populated 1\nfrozen 1\n');
  const calls: string[] = [];
  const run: Run = async (_, [, verb = '']) => {
    calls.push(verb);
    if (verb === 'inspect') {
      // The kernel tells it as soon as it was written.
      if (existsSync(at) && readFileSync(join(at, 'cgroup.freeze'), 'utf8') === '0')
        await writeFile(join(at, 'cgroup.events'), 'populated 1\nfrozen 0\n');
      return { status: 0, stdout: 'running\n', stderr: '' };
    }
    return { status: 125, stdout: '', stderr: 'Error: is not paused\n' };
  };
  return { container: new PodmanContainer(id, run, root), calls };
}

for (const [name, inner] of [
  [`libpod_parent/libpod-${id}`, ''],
  [`machine.slice/libpod-${id}.scope`, 'container'],
] as const) {
  test(`a freeze that podman does not know of is found and undone: ${name}`, async (t) => {
    const { container, calls } = await frozen(t, name, inner);
    assert.equal(await container.state(), 'paused');
    await container.unpause();
    assert.equal(await container.state(), 'runs');
    assert.ok(calls.includes('unpause'), 'podman is asked first');
  });
}

test('a frozen cgroup of another container is not its own', async (t) => {
  const { container } = await frozen(t, `libpod_parent/libpod-${'d1'.repeat(32)}`);
  assert.equal(await container.state(), 'runs');
});
