/** One container that is saved into an archive, removed and restored, again and again. */

import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { seconds } from '../bench/timing.js';
import { archivePath } from '../e2e/support/archive.js';
import { run } from '../e2e/support/command.js';
import { Container } from '../e2e/support/container.js';
import { configure } from '../e2e/support/product.js';
import type { Progress } from './progress.js';
import {
  gpuSample,
  hostSample,
  processSample,
  type Sample,
  sessionSample,
  settled,
} from './sample.js';

/** A program without ROCr starts fast and knows the number of everything it has. */
const smallProgram = ['kfd-worker', '--memory', '--ordered'];

/** So few that old ones are removed in most cycles. */
export const keptLogs = 4;

/** Contents stay wrong once they are: after so many cycles all are compared. It takes longer than a cycle. */
const every = 10;

export async function chain(progress: Progress): Promise<void> {
  configure({ keep_logs: keptLogs });
  const job = await Container.start({ engine: 'crun', command: smallProgram });
  assert.match(await job.control.ask('verify'), /^verified /); // the first one takes memory of its own
  while (!progress.done) {
    progress.add(await cycle(job));
    const compared = progress.done || progress.samples.length % every === 0;
    const answer = await job.control.ask(compared ? 'verify' : 'status');
    assert.match(answer, compared ? /^verified / : /^running /);
  }
  await job.remove();
  configure({});
}

async function cycle(job: Container): Promise<Sample> {
  const archive = archivePath('crun', 'chain.tar');
  const flags = ['--compress', 'none', '--export', archive];
  const checkpoint_s = await seconds('podman', 'container', 'checkpoint', ...flags, job.name);
  const archive_rest_bytes = await restOf(archive);
  // Beside the restore: starting it takes a third of a cycle.
  const inspected = run('kfd-checkpoint', 'inspect', '--format', 'json', archive);
  await run('podman', 'rm', job.name);
  const gone = gpuSample();
  assert.ok(
    Object.values(gone).every((value) => value === 0),
    `objects between two lives: ${JSON.stringify(gone)}`,
  );
  const restore_s = await seconds('podman', 'container', 'restore', '--import', archive);
  const report = JSON.parse(await inspected);
  rmSync(archive);
  await settled(1);
  return {
    checkpoint_s,
    restore_s,
    archive_rest_bytes,
    contents_bytes: report.checkpoint_size.amd_gpu_memory_pages_size,
    ...processSample(job.pid()),
    ...hostSample(),
    ...gpuSample(),
    ...sessionSample(),
  };
}

/**
 * Bytes in an archive without GPU contents, the container's output, and podman's config.dump, to which each restore
 * adds one mount of /dev/shm (seen with 5.4.2).
 */
export async function restOf(archive: string): Promise<number> {
  const lines = (await run('tar', '--list', '--verbose', '--file', archive)).split('\n');
  return lines.reduce((sum, line) => {
    const [, size = '', name = ''] = /^\S+ +\S+ +(\d+) \S+ \S+ (.*)$/.exec(line) ?? [];
    const isKnown = /^(config\.dump|ctr\.log|checkpoint\/amdgpu-pages-.*)$/.test(name);
    return isKnown ? sum : sum + Number(size);
  }, 0);
}
