/** Other GPUs than the usual one (gfx90a): a checkpoint and a restore in place on each. */

import assert from 'node:assert/strict';
import { Container } from './support/container.js';
import { gpuDevices } from './support/devices.js';
import { type Gpu, gpuWith, onNextKernel } from './support/gpu.js';
import { scenario } from './support/suite.js';

interface Chip {
  readonly gpu: Gpu;
  /** Of those the container has, the one its program computes on. */
  readonly index: number;
}

const partition = ['device_id=0x74a1', 'xccs=2', 'user_partt_mode=4'];
const chips: Readonly<Record<string, Chip>> = {
  gfx906: { gpu: gpuWith('device_id=0x66a1'), index: 0 },
  'the second partition of a gfx942 in CPX': { gpu: gpuWith(...partition), index: 1 },
  'the last of eight GPUs in one hive': { gpu: gpuWith('gpus=8', 'hive=1'), index: 7 },
  // Its compute queues are refused on 6.12: refusals.
  ...(onNextKernel ? { gfx1030: { gpu: gpuWith('device_id=0x73bf'), index: 0 } } : {}),
};

for (const [name, { gpu, index }] of Object.entries(chips)) {
  scenario(
    `a program on ${name}`,
    async ({ engine }) => {
      const gpus = Array.from({ length: index + 1 }, (_, i) => i);
      const job = await Container.start({
        engine,
        devices: gpuDevices(...gpus),
        worker: ['--gpu', String(index), '--vram-mib', '4', '--pending-barrier', '--events-waiter'],
      });
      const saved = await job.checkpoint();
      assert.equal(saved.status, 0, saved.stderr);
      const restored = await job.restore('--keep', job.name);
      assert.equal(restored.status, 0, restored.stderr);
      const answer = await job.control.ask('verify');
      assert.match(answer, /^verified bytes=4194304 barrier=completed .*waiter=woken/);
      assert.match(await job.control.ask('churn'), /^churned /);
      assert.match(await job.control.ask('exit'), /^exiting /);
    },
    { gpu },
  );
}
