/** One large buffer, and more contents than the container may use memory. */

import assert from 'node:assert/strict';
import { archivePath } from './support/archive.js';
import { Container } from './support/container.js';
import { scenario } from './support/suite.js';

const minutes = 60;

scenario('one BO of 1 GiB under a memory limit of 512 MiB', async ({ engine }) => {
  const archive = archivePath(engine, 'large.tar');
  const job = await Container.start({
    engine,
    flags: ['--memory', '512m', '--memory-swap', '512m'],
    worker: ['--vram-mib', '1024', '--step-ms', '0'],
  });
  const saved = await job.checkpoint('--compress', 'none', '--export', archive);
  assert.equal(saved.status, 0, saved.stderr);
  await job.remove();
  const restored = await job.restore('--import', archive);
  assert.equal(restored.status, 0, restored.stderr);
  assert.match(await job.control.ask('verify', 4 * minutes), /^verified bytes=1073741824 /);
});
