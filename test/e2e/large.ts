/** One large buffer, and more contents than the container may use memory. */

import assert from 'node:assert/strict';
import { Container } from './support/container.js';
import { scenario } from './support/suite.js';

const minutes = 60;

scenario('one BO of 1 GiB under a memory limit of 512 MiB', async ({ engine }) => {
  const job = await Container.start({
    engine,
    flags: ['--memory', '512m', '--memory-swap', '512m'],
    worker: ['--vram-mib', '1024', '--step-ms', '0'],
  });
  // In place: an archive of this size would only keep tar busy.
  const saved = await job.checkpoint();
  assert.equal(saved.status, 0, saved.stderr);
  const restored = await job.restore(job.name);
  assert.equal(restored.status, 0, restored.stderr);
  assert.match(await job.control.ask('verify', 4 * minutes), /^verified bytes=1073741824 /);
});
