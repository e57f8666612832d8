/** A checkpoint that lets the container go on; the container has 1,000 BOs. */

import assert from 'node:assert/strict';
import { archivePath } from './support/archive.js';
import { run } from './support/command.js';
import { Container, counter } from './support/container.js';
import { scenario } from './support/suite.js';

const minutes = 60;
const verified = /^verified bytes=65536000 .*barrier=completed/;

scenario(
  '1,000 BOs of 64 KiB, --leave-running, then restored under another name',
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
    const end = counter(await job.control.ask('exit'));
    await run('podman', 'wait', job.name);

    const twin = `${job.name}-twin`;
    const restored = await job.restore('--import', archive, '--name', twin);
    assert.equal(restored.status, 0, restored.stderr);
    const resumed = counter(await job.control.ask('status'));
    assert.ok(resumed < end, `counter ${resumed} of the twin is not older than ${end}`);
    assert.match(await job.control.ask('verify', 4 * minutes), verified);
  },
);
