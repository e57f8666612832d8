/** A checkpoint that lets the container go on, and a later one without what had not changed; the container has 1,000 BOs. */

import assert from 'node:assert/strict';
import { archivePath } from './support/archive.js';
import { attempt, run } from './support/command.js';
import { Container, counter } from './support/container.js';
import { scenario } from './support/suite.js';

const minutes = 60;
const verified = /^verified bytes=65536000 .*barrier=completed/;

scenario(
  '1,000 BOs of 64 KiB, --leave-running, then with that as parent; both restored under other names',
  async ({ engine }) => {
    const archive = archivePath(engine, 'left.tar');
    const job = await Container.start({
      engine,
      worker: ['--bos', '1000', '--bo-kib', '64', '--pending-barrier', '--step-ms', '20'],
    });
    const saved = await job.checkpoint(
      '--leave-running',
      '--compress',
      'none',
      '--export',
      archive,
    );
    assert.equal(saved.status, 0, saved.stderr);

    await job.computesOn();
    assert.match(await job.control.ask('verify', 4 * minutes), verified);
    const end = counter(await job.control.ask('status'));
    const later = archivePath(engine, 'later.tar');
    const flags = ['--compress', 'none', '--export', later];
    const changed = await attempt(
      ...['kfd-checkpoint', 'checkpoint', '--quiet', '--parent', archive, job.name, ...flags],
    );
    assert.equal(changed.status, 0, changed.stderr);
    assert.ok((await contentBytes(later)) * 50 <= (await contentBytes(archive)));

    const twin = `${job.name}-twin`;
    const restored = await job.restore('--import', archive, '--name', twin);
    assert.equal(restored.status, 0, restored.stderr);
    const resumed = counter(await job.control.ask('status'));
    assert.ok(resumed < end, `counter ${resumed} of the twin is not older than ${end}`);
    assert.match(await job.control.ask('verify', 4 * minutes), verified);
    await run('podman', 'rm', '-f', '-t', '0', twin);

    const alone = await job.restore('--import', later, '--name', `${twin}-2`);
    assert.notEqual(alone.status, 0);
    const whole = await attempt(
      ...['kfd-checkpoint', 'restore', '--quiet', '--parent', archive, later],
      ...['--name', `${twin}-3`],
    );
    assert.equal(whole.status, 0, whole.stderr);
    const last = counter(await job.control.ask('status'));
    assert.ok(last >= end, `counter ${last} is older than ${end}`);
    assert.match(await job.control.ask('verify', 4 * minutes), verified);
  },
);

/** Bytes of the pages files in an archive. */
async function contentBytes(archive: string): Promise<number> {
  const report = JSON.parse(await run('kfd-checkpoint', 'inspect', '--format', 'json', archive));
  return report.checkpoint_size.amd_gpu_memory_pages_size;
}
