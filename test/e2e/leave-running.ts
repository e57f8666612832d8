/** A checkpoint that lets the container go on. */

import assert from 'node:assert/strict';
import { archivePath } from './support/archive.js';
import { run } from './support/command.js';
import { Container } from './support/container.js';
import { scenario } from './support/suite.js';

function counter(reply: string): number {
  return Number(/counter=(\d+)/.exec(reply)?.[1] ?? Number.NaN);
}

scenario('--leave-running, then restored under another name', async ({ engine }) => {
  const archive = archivePath(engine, 'left.tar');
  const job = await Container.start({
    engine,
    worker: ['--vram-mib', '16', '--pending-barrier', '--step-ms', '20'],
  });
  const saved = await job.checkpoint('--leave-running', '--compress', 'none', '--export', archive);
  assert.equal(saved.status, 0, saved.stderr);

  const before = counter(await job.control.ask('status'));
  const after = counter(await job.control.ask('status'));
  assert.ok(after > before, `the original stands still at ${before}`);
  assert.match(await job.control.ask('verify'), /^verified .*barrier=completed/);
  const end = counter(await job.control.ask('exit'));
  await run('podman', 'wait', job.name);

  const twin = job.as(`${job.name}-twin`);
  const restored = await twin.restore('--import', archive, '--name', twin.name);
  assert.equal(restored.status, 0, restored.stderr);
  const resumed = counter(await twin.control.ask('status'));
  assert.ok(resumed < end, `counter ${resumed} of the twin is not older than ${end}`);
  assert.match(await twin.control.ask('verify'), /^verified .*barrier=completed/);
});
