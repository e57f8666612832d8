/** One checkpoint, many restores: at once on all GPUs of a host, and one after another. */

import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { archivePath } from './support/archive.js';
import { attempt, run } from './support/command.js';
import { Container } from './support/container.js';
import { gpuWith, loadGpu, meetComplaint, pinnedEventsPage } from './support/gpu.js';
import { scenario } from './support/suite.js';

const fourGpus = gpuWith('gpus=4', 'hive=1');
/** Of each engine: the module makes four for both lanes. */
const nodes: Readonly<Record<string, readonly string[]>> = {
  crun: ['renderD128', 'renderD129'],
  runc: ['renderD130', 'renderD131'],
};

/** All copies have one folder for commands: the others stand still while one is asked. */
async function askAlone(job: Container, name: string, all: readonly string[]): Promise<string> {
  const others = all.filter((other) => other !== name);
  for (const other of others) await run('podman', 'pause', other);
  try {
    return await job.control.ask('verify');
  } finally {
    for (const other of others) await run('podman', 'unpause', other);
  }
}

async function restore(archive: string, node: string, name: string) {
  const words = ['restore', '--quiet', '--gpu-map', `renderD128=${node}`, archive];
  const restored = await attempt('kfd-checkpoint', ...words, '--name', name);
  assert.equal(restored.status, 0, `${name} on ${node}: ${restored.stderr}`);
  const pid = await run('podman', 'inspect', '-f', '{{.State.Pid}}', name);
  assert.ok(readdirSync(`/proc/${pid}/root/dev/dri`).includes(node), `${name} has no ${node}`);
}

scenario(
  'many: one archive on all GPUs at once, and one after another',
  async ({ engine, meet }) => {
    const worker = ['--vram-mib', '16', '--seed', '7'];
    const job = await Container.start({ engine, worker });
    const archive = archivePath(engine, 'one.tar');
    const saved = await job.checkpoint('--compress', 'none', '--export', archive);
    assert.equal(saved.status, 0, saved.stderr);
    await job.remove();
    // The GPUs of the other lane's source are free from here on.
    await meet(() => undefined);
    const names = (nodes[engine] ?? []).map((node) => ({ node, name: `${engine}-on-${node}` }));
    for (const when of ['at once', 'one after another']) {
      if (when === 'at once') {
        await Promise.all(names.map(({ node, name }) => restore(archive, node, name)));
      } else {
        for (const { node, name } of names) await restore(archive, node, name);
      }
      const all = names.map(({ name }) => name);
      for (const name of all) {
        const verified = await askAlone(job, name, all);
        assert.match(verified, /^verified bytes=\d+/, `${name}, ${when}`);
      }
      for (const name of all) await run('podman', 'rm', '-f', '-t', '0', name);
    }
    await meetComplaint(pinnedEventsPage);
    // The pages that it is about stay pinned.
    await meet(() => loadGpu(fourGpus));
  },
  { gpu: fourGpus },
);
