/** Checkpoint and restore on the same host, without an archive. */

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { run } from './support/command.js';
import { Container } from './support/container.js';
import { scenario } from './support/suite.js';

/** Restores, in the second round from an image directory that nobody can write. */
async function restore(job: Container, round: number): Promise<void> {
  const image = join(await job.bundle(), 'checkpoint');
  const readOnly = round === 2;
  if (readOnly) await run('mount', '-o', 'bind,ro', image, image);
  try {
    const restored = await job.restore('--keep', job.name);
    assert.equal(restored.status, 0, `round ${round}: ${restored.stderr}`);
  } finally {
    if (readOnly) await run('umount', image);
  }
}

scenario('in place, three times in a row', async ({ engine }) => {
  const job = await Container.start({
    engine,
    network: 'bridge',
    worker: ['--vram-mib', '16', '--pending-barrier'],
  });
  for (const round of [1, 2, 3]) {
    const saved = await job.checkpoint();
    assert.equal(saved.status, 0, `round ${round}: ${saved.stderr}`);
    await restore(job, round);
    assert.match(await job.control.ask('verify'), /^verified .*barrier=completed/);
  }
  assert.match(await job.control.ask('exit'), /^exiting /);
});
