/** podman's pre-checkpoint copies host memory while the container runs; the checkpoint that follows has the GPU. */

import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { archivePath } from './support/archive.js';
import { attempt, run } from './support/command.js';
import { Container } from './support/container.js';
import { sessionCount } from './support/product.js';
import { scenario } from './support/suite.js';

const worker = ['--vram-mib', '16', '--host-mib', '8', '--pending-barrier', '--events-waiter'];

const name = 'after a pre-checkpoint: by archives, which name each other, and in place';

/** Logs of sessions before the pre-checkpoints of both lanes. */
let before = 0;

scenario(name, async ({ engine, meet }) => {
  const first = archivePath(engine, 'pre.tar');
  const second = archivePath(engine, 'job.tar');
  const job = await Container.start({ engine, worker });

  // No session is started for a pre-checkpoint. The lanes meet, because each would count the other's.
  await meet(async () => {
    before = sessionCount();
  });
  const previous = await job.checkpoint(
    '--pre-checkpoint',
    '--compress',
    'none',
    '--export',
    first,
  );
  assert.equal(previous.status, 0, previous.stderr);
  await meet(async () => assert.equal(sessionCount(), before));
  assert.equal(await job.status(), 'running');
  await job.computesOn();
  const refused = await attempt('kfd-checkpoint', 'check', first);
  assert.equal(refused.status, 4, refused.stderr);
  assert.match(refused.stderr, /a pre-checkpoint: it has host memory only/);

  const saved = await job.checkpoint('--with-previous', '--compress', 'none', '--export', second);
  assert.equal(saved.status, 0, saved.stderr);
  await job.remove();
  const found = await run('kfd-checkpoint', 'check', second);
  assert.match(found, /podman container restore --import \S+ --import-previous PRE-CHECKPOINT/);
  const alone = await attempt('kfd-checkpoint', 'restore', second);
  assert.equal(alone.status, 2, alone.stderr);
  const restored = await job.restore('--import-previous', first, '--import', second);
  assert.equal(restored.status, 0, restored.stderr);
  assert.match(await job.control.ask('verify'), /^verified .*barrier=completed .*waiter=woken/);

  for (const flag of ['--pre-checkpoint', '--with-previous']) {
    const inPlace = await job.checkpoint(flag);
    assert.equal(inPlace.status, 0, inPlace.stderr);
  }
  assert.ok(readdirSync(join(job.bundle, 'checkpoint')).includes('parent'));
  const back = await attempt('kfd-checkpoint', 'restore', job.name);
  assert.equal(back.status, 0, back.stderr);
  assert.match(await job.control.ask('verify'), /^verified /);
  assert.match(await job.control.ask('exit'), /^exiting /);
});
