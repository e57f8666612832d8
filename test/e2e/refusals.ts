/** What cannot be saved yet is refused by name, and the container computes on. */

import assert from 'node:assert/strict';
import { readHost } from '../../src/gpu/host.js';
import { queueProbe } from '../../src/gpu/queue-probe.js';
import { native } from '../../src/native.js';
import { Container } from './support/container.js';
import { gpuDevices } from './support/devices.js';
import { assertExplained } from './support/explained.js';
import { gpuWith, kfdsim, loadGpu, loadWhenUnused } from './support/gpu.js';
import { criuLog } from './support/session.js';
import { assertNothingLeft, scenario } from './support/suite.js';

async function assertRefused(job: Container, reasons: readonly RegExp[]): Promise<void> {
  const saved = await job.checkpoint();
  assert.notEqual(saved.status, 0, 'the checkpoint should have been refused');
  for (const reason of reasons) await assertExplained(job, 'dump', saved, reason);
  assert.equal(await job.status(), 'running');
  assert.match(await job.control.ask('verify'), /^verified /);
}

scenario('refused before anything is paused, with all reasons at once', async ({ engine }) => {
  const worker = ['--vram-mib', '16', '--gem', '--map-dmabuf', '--io-uring'];
  const flags = ['--security-opt', 'seccomp=unconfined']; // podman's own filter has no io_uring
  const job = await Container.start({ engine, worker, flags });
  await assertRefused(job, [
    /GEM buffers of its own: /,
    /pid \d+ \(gpu-worker\) maps dma-buf inode \d+ at address 0x[0-9a-f]+: CRIU cannot save/,
    /pid \d+ \(gpu-worker\) uses io_uring, which CRIU cannot save/,
  ]);
});

scenario(
  'refused after the pause, which is undone: a buffer mapped in pieces',
  async ({ engine }) => {
    const job = await Container.start({ engine, worker: ['--vram-mib', '16', '--split'] });
    await assertRefused(job, [/maps a GPU buffer in pieces/]);
    assert.match(criuLog(job, 'dump'), /the GPU runs again/);
  },
);

// CHECKPOINT would stop the kernel: kfd_chardev.c:criu_checkpoint_bos@6.12.117 and @7.3.4.
scenario(
  'refused after the pause: a GPU that the container may use and the process has not opened',
  async ({ engine }) => {
    const devices = gpuDevices(0, 1);
    const job = await Container.start({ engine, devices, command: ['kfd-worker', '--memory'] });
    await assertRefused(job, [/pid \d+ may use GPU \d+ and has not opened it/]);
  },
  { gpu: gpuWith('gpus=2') },
);

const lossyGpus = [
  {
    gpu: gpuWith('device_id=0x74a1'), // gfx942
    reason: /compute queues? [\d, ]+ on a gfx942 with 8 compute dies: this kernel saves one of/,
  },
  {
    gpu: gpuWith('device_id=0x73bf'), // gfx1030
    reason: /compute queues? [\d, ]+ on a gfx1030: Linux 6\.12 from 6\.12\.108 on does not take/,
  },
  {
    gpu: kfdsim('gfx_target_version=110000'),
    reason: /queues? [\d, ]+ on a gfx1100: no kernel can bring back queues/,
  },
];

scenario('refused before the pause: queues that would never run again', async (lane) => {
  try {
    for (const { gpu, reason } of lossyGpus) {
      await lane.meet(async () => {
        await assertNothingLeft();
        await loadGpu(gpu);
      });
      const command = ['kfd-worker', '--queues'];
      const job = await Container.start({ engine: lane.engine, command });
      await assertRefused(job, [reason]);
      // What the plugin says when it has undone a pause.
      assert.doesNotMatch(criuLog(job, 'dump'), /the GPU runs again/);
      await job.remove();
    }
    await lane.meet(assertNothingLeft);
  } finally {
    await lane.meet(loadWhenUnused);
  }
});

// kfd_process_queue_manager.c:kfd_criu_restore_queue@6.12.118 and @7.3.4 take the size of one die.
scenario(
  'asked whether it takes queues of eight dies, the driver says no, and nobody is disturbed',
  async ({ engine }) => {
    const job = await Container.start({ engine, command: ['kfd-worker', '--queues'] });
    const gpus = (await readHost()).gpus.map(({ record }) => record);
    const answers: string[] = [];
    const takes = queueProbe(gpus, (queue) => {
      answers.push(native().kfdRestoreTakes(queue));
      return answers.at(-1) as 'yes' | 'no' | 'unknown';
    });
    for (const kind of ['compute', 'sdma'] as const) {
      assert.equal(takes(gpus[0] as (typeof gpus)[number], kind), false);
    }
    assert.deepEqual(answers, ['no', 'no']);
    assert.match(await job.control.ask('verify'), /^verified /);
  },
  { gpu: gpuWith('device_id=0x74a1') },
);
