/** Nodes of GPUs in a container: missing ones, other names, card nodes. */

import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { archivePath } from './support/archive.js';
import { Container } from './support/container.js';
import { assertExplained } from './support/explained.js';
import { gpuWith, loadGpu } from './support/gpu.js';
import type { Lane } from './support/lanes.js';
import { scenario } from './support/suite.js';

async function assertRefused(job: Container, reason: RegExp): Promise<void> {
  const saved = await job.checkpoint();
  assert.notEqual(saved.status, 0, 'the checkpoint should have been refused');
  await assertExplained(job, 'dump', saved, reason);
  assert.equal(await job.status(), 'running');
}

async function inPlace(job: Container): Promise<void> {
  const saved = await job.checkpoint();
  assert.equal(saved.status, 0, saved.stderr);
  const restored = await job.restore(job.name);
  assert.equal(restored.status, 0, restored.stderr);
}

// Where the GPUs have other ids, RESTORE is needed for a process that only opened /dev/kfd. It wants both GPUs.
scenario(
  'a GPU that the container may use and has no node of, twice',
  async ({ engine, meet }: Lane) => {
    const job = await Container.start({
      engine,
      flags: ['--device-cgroup-rule', 'c 226:129 rw'],
      command: ['kfd-opener'],
    });
    const archive = archivePath(engine, 'no-node.tar');
    const saved = await job.checkpoint('--compress', 'none', '--export', archive);
    assert.equal(saved.status, 0, saved.stderr);
    await job.remove();
    await meet(() => loadGpu(gpuWith('gpus=2', 'first_slot=7')));
    const restored = await job.restore('--import', archive);
    assert.equal(restored.status, 0, restored.stderr);
    assert.match(await job.control.ask('verify'), /^verified kfd=/);
    await inPlace(job);
    assert.match(await job.control.ask('verify'), /^verified kfd=/);
  },
  { gpu: gpuWith('gpus=2') },
);

scenario(
  'refused before the pause: an open card node, a render node that was removed',
  async ({ engine }) => {
    const job = await Container.start({
      engine,
      flags: ['--device', '/dev/dri/card0'],
      command: ['sh', '-c', 'exec 9</dev/dri/card0; exec gpu-worker --vram-mib 2'],
    });
    rmSync(`/proc/${job.pid()}/root/dev/dri/renderD128`);
    const who = 'pid \\d+ \\(gpu-worker\\)';
    await assertRefused(job, new RegExp(`${who} holds card0 open as descriptor 9: CRIU cannot`));
    await assertRefused(job, new RegExp(`${who} uses renderD128, and the container's /dev has no`));
    assert.match(await job.control.ask('verify'), /^verified /);
  },
);
