/** A container whose GPU works without a pause and that is saved while it continues, again and again. */

import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { seconds } from '../bench/timing.js';
import { archivePath } from '../e2e/support/archive.js';
import { run } from '../e2e/support/command.js';
import { Container } from '../e2e/support/container.js';
import { configure } from '../e2e/support/product.js';
import { keptLogs, restOf } from './chain.js';
import type { Progress } from './progress.js';
import { gpuSample, hostSample, processSample, sessionSample, settled } from './sample.js';

/** After so many checkpoints the newest is verified; the last one is restored. */
const every = 50;
const worker = ['--vram-mib', '16', '--step-ms', '5', '--pending-barrier'];

export async function running(progress: Progress): Promise<void> {
  const job = await Container.start({ engine: 'crun', worker });
  configure({ keep_logs: keptLogs });
  const archive = archivePath('crun', 'running.tar');
  const flags = ['--leave-running', '--compress', 'none', '--export', archive];
  while (!progress.done) {
    const checkpoint_s = await seconds('podman', 'container', 'checkpoint', ...flags, job.name);
    await job.computesOn();
    await settled(1);
    progress.add({
      checkpoint_s,
      archive_rest_bytes: await restOf(archive),
      ...processSample(job.pid()),
      ...hostSample(),
      ...gpuSample(),
      ...sessionSample(),
    });
    if (progress.samples.length % every === 0) await run('kfd-checkpoint', 'verify', archive);
  }
  assert.match(await job.control.ask('verify'), /^verified /);
  await job.remove();
  const restored = await job.restore('--import', archive);
  assert.equal(restored.status, 0, restored.stderr);
  assert.match(await job.control.ask('verify'), /^verified /);
  await job.remove();
  rmSync(archive);
  configure({});
}
