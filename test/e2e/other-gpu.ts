/**
 * A container goes to hosts where its GPU has another KFD id, render node and place among others, and
 * `/dev/kfd` another major: three moves, the last one in place, as after a boot, and back to where it came from.
 */

import assert from 'node:assert/strict';
import { readdirSync, statSync } from 'node:fs';
import { archivePath } from './support/archive.js';
import { attempt, run } from './support/command.js';
import { Container, removeContainers } from './support/container.js';
import {
  goHome,
  gpuWith,
  loadGpu,
  meetComplaint,
  pinnedEventsPage,
  takeMajor,
  unloadGpu,
} from './support/gpu.js';
import type { Lane } from './support/lanes.js';
import { scenario } from './support/suite.js';

/** GPUs that are too small lie before the only one that fits; a module that also takes a dynamic major takes kfd's. */
const hosts = [
  {
    node: 'renderD129',
    inPlace: false,
    become: async () => {
      await takeMajor();
      await loadGpu(gpuWith('vram_mb=16,1024', 'first_slot=7'));
    },
  },
  {
    node: 'renderD130',
    inPlace: false,
    become: async () => {
      await unloadGpu();
      await run('rmmod', 'uio');
      await loadGpu(gpuWith('vram_mb=16,16,1024', 'first_slot=3'));
    },
  },
  { node: 'renderD128', inPlace: true, become: () => loadGpu() },
] as const;

async function move(
  job: Container,
  { engine, meet }: Lane,
  { node, inPlace, become }: (typeof hosts)[number],
): Promise<void> {
  const archive = archivePath(engine, `to-${node}.tar`);
  const toArchive = ['--compress', 'none', '--export', archive];
  const saved = await job.checkpoint(...(inPlace ? [] : toArchive));
  assert.equal(saved.status, 0, saved.stderr);
  if (!inPlace) await job.remove();
  await meet(become);
  const what = inPlace ? job.name : archive;
  const restored = await attempt('kfd-checkpoint', 'restore', '--quiet', what, '--keep');
  assert.equal(restored.status, 0, restored.stderr);
  assert.match(restored.stdout, /^[0-9a-f]{64}$/); // what podman says
  const held = await attempt(
    'sh',
    '-c',
    `ls -l /proc/[0-9]*/fd | grep '${archive.replace(/[^/]*$/, '')}.*(deleted)'`,
  );
  assert.equal(held.stdout, '', 'the copy of the archive still takes room');
  assert.ok(
    readdirSync(`/proc/${job.pid()}/root/dev/dri`).includes(node),
    'a new program in the container would not find the GPU',
  );
  // The card node of the same GPU, which no program has open.
  const card = `/dev/dri/card${Number(node.slice('renderD'.length)) - 128}`;
  assert.equal(statSync(`/proc/${job.pid()}/root${card}`).rdev, statSync(card).rdev);
  assert.match(await job.control.ask('verify'), /^verified bytes=2097152 barrier=completed/);
  await job.computesOn();
}

scenario('to other GPU ids, render nodes and majors, and back', async (lane) => {
  const { engine, meet } = lane;
  try {
    const job = await Container.start({
      engine,
      flags: ['--device', '/dev/dri/card0'],
      worker: ['--vram-mib', '2', '--pending-barrier'],
    });
    for (const host of hosts) await move(job, lane, host);
    assert.match(await job.control.ask('churn'), /^churned /);
    await meetComplaint(pinnedEventsPage);
  } finally {
    await removeContainers(engine);
    await meet(goHome);
  }
});
