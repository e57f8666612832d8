/**
 * Hardware that fails beneath the driver: an interrupt that is lost, an engine that hangs until the driver resets the
 * GPU, an address that a queue does not find. What the driver itself mends is not noticed; what it cannot is told, and
 * the next container works.
 */

import assert from 'node:assert/strict';
import { archivePath } from './support/archive.js';
import { Container } from './support/container.js';
import { assertExplained } from './support/explained.js';
import { addFault, forgetFaults, gpuWith, kfdsim } from './support/gpu.js';
import type { Lane } from './support/lanes.js';
import { configure } from './support/product.js';
import { scenario } from './support/suite.js';

const worker = ['--vram-mib', '16', '--pending-barrier'];
const verified = /^verified bytes=16777216 barrier=completed/;

/** A time-out of the driver's jobs that is soon over. */
const impatient = gpuWith('lockup_timeout=2000');

scenario('interrupts that are lost while contents move', async ({ engine, meet }) => {
  const job = await Container.start({ engine, worker });
  await meet(() => addFault('interrupt 1 lost', 'interrupt 5 lost'));
  const saved = await job.checkpoint();
  assert.equal(saved.status, 0, saved.stderr);
  await meet(() => addFault('interrupt 1 lost', 'interrupt 5 lost'));
  const restored = await job.restore(job.name);
  assert.equal(restored.status, 0, restored.stderr);
  assert.match(await job.control.ask('verify'), verified);
});

/** Checkpoints of both engines that failed. */
let failed = 0;

/** The next container, on a GPU that was reset, is saved and comes back. */
async function works({ engine }: Lane): Promise<void> {
  const job = await Container.start({ engine, worker });
  const saved = await job.checkpoint();
  assert.equal(saved.status, 0, saved.stderr);
  const restored = await job.restore(job.name);
  assert.equal(restored.status, 0, restored.stderr);
  assert.match(await job.control.ask('verify'), verified);
}

// Of the two that are saved at a time one is hit. The other may be done before the reset, which takes all of VRAM.
scenario(
  'a copy engine that hangs: the driver resets the GPU, the checkpoint fails by name',
  async (lane) => {
    const job = await Container.start({ engine: lane.engine, worker });
    await lane.meet(() => addFault('submission 1 hang'));
    const saved = await job.checkpoint();
    await lane.meet(() => undefined);
    if (saved.status === 0) {
      const restored = await job.restore(job.name);
      assert.equal(restored.status, 0, restored.stderr);
      assert.match(await job.control.ask('verify'), verified);
    } else {
      failed++;
      await assertExplained(job, 'dump', saved, /E_\w+: .*(SDMA|copy|engine)/s);
    }
    await job.remove();
    await lane.meet(() => assert.ok(failed > 0, 'saved from a GPU that was reset'));
    await works(lane);
  },
  { gpu: impatient },
);

/** Programs of both engines that have ended. */
let ended = 0;

// One packet is hit, of whichever program; ROCr ends that one.
scenario('a queue that meets an address nobody has', async ({ engine, meet }) => {
  const job = await Container.start({ engine, worker });
  await meet(() => addFault('packet 1 fault'));
  await job.control.ask('verify', 10).catch(() => undefined);
  if ((await job.status()) !== 'running') ended++;
  await job.remove();
  await meet(() => assert.ok(ended > 0, 'no program has ended'));
  const next = await Container.start({ engine, worker });
  assert.match(await next.control.ask('verify'), verified);
});

// The real driver tries again as long as host memory is short, which a guest does not survive.
scenario(
  'queues that never run again after RESUME: the restore fails by name',
  async ({ engine, meet }) => {
    const archive = archivePath(engine, 'held.tar');
    const job = await Container.start({ engine, worker });
    const saved = await job.checkpoint('--compress', 'none', '--export', archive);
    assert.equal(saved.status, 0, saved.stderr);
    await job.remove();
    await meet(() => {
      addFault('resume hold');
      configure({ gate_timeout_s: 15 });
    });
    const held = await job.restore('--import', archive);
    await meet(() => {
      forgetFaults();
      configure({});
    });
    assert.notEqual(held.status, 0, 'restored, and its queues do not run');
    const reason =
      /E_TIMEOUT: process \d+: its queues do not run on gpu \d+, [\d.]+ s after RESUME/;
    await assertExplained(job, 'restore', held, reason);
    await job.remove();
    const restored = await job.restore('--import', archive);
    assert.equal(restored.status, 0, restored.stderr);
    assert.match(await job.control.ask('verify'), verified);
  },
  { gpu: kfdsim() },
);
