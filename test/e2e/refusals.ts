/** What cannot be saved yet is refused by name, before anything is paused. */

import assert from 'node:assert/strict';
import { Container } from './support/container.js';
import { assertExplained } from './support/explained.js';
import { scenario } from './support/suite.js';

const oddities = [
  { flag: '--dmabuf', reason: /holds dma-buf inode \d+ open as descriptor \d+/ },
  { flag: '--share', reason: /use the GPU: several GPU processes in one container/ },
  { flag: '--gem', reason: /opened a render node more than once|GEM buffers of its own/ },
  { flag: '--split', reason: /maps a GPU buffer in pieces/ },
] as const;

for (const { flag, reason } of oddities) {
  scenario(`refused by name: gpu-worker ${flag}`, async ({ engine }) => {
    const job = await Container.start({ engine, worker: ['--vram-mib', '16', flag] });
    const saved = await job.checkpoint();
    assert.notEqual(saved.status, 0, 'the checkpoint should have been refused');
    await assertExplained(job, 'dump', saved, reason);
    assert.equal(await job.status(), 'running');
    assert.match(await job.control.ask('verify'), /^verified /);
  });
}

scenario('supported: /dev/kfd opened twice, or inherited by a child', async ({ engine }) => {
  const job = await Container.start({
    engine,
    worker: ['--vram-mib', '16', '--double-kfd', '--fork-holder', '--pending-barrier'],
  });
  const saved = await job.checkpoint();
  assert.equal(saved.status, 0, saved.stderr);
  const restored = await job.restore(job.name);
  assert.equal(restored.status, 0, restored.stderr);
  assert.match(await job.control.ask('verify'), /^verified .*barrier=completed/);
});
