/** Checkpoint and restore on the same host, without an archive. */

import assert from 'node:assert/strict';
import { Container } from './support/container.js';
import { scenario } from './support/suite.js';

scenario('in place, three times in a row', async ({ engine }) => {
  const job = await Container.start({
    engine,
    network: 'bridge',
    worker: ['--vram-mib', '16', '--pending-barrier'],
  });
  for (const round of [1, 2, 3]) {
    const saved = await job.checkpoint();
    assert.equal(saved.status, 0, `round ${round}: ${saved.stderr}`);
    const restored = await job.restore(job.name);
    assert.equal(restored.status, 0, `round ${round}: ${restored.stderr}`);
    assert.match(await job.control.ask('verify'), /^verified .*barrier=completed/);
  }
  assert.match(await job.control.ask('exit'), /^exiting /);
});
