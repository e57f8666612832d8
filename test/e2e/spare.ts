/** Checkpoints and restores by a session that had started before: kfd-checkpoint-spare.service. */

import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { archivePath } from './support/archive.js';
import { Container } from './support/container.js';
import { type Operation, sessionEnd, sessionLog } from './support/session.js';
import { SpareUnit } from './support/spare.js';
import { scenario } from './support/suite.js';

/** There is one for all engines. */
let turn = Promise.resolve();

async function wasSpare(job: Container, operation: Operation): Promise<boolean> {
  await sessionEnd(job, operation);
  return sessionLog(job, operation).some(({ msg }) => msg === 'was spare');
}

async function roundTrip(engine: Container['engine']): Promise<void> {
  const unit = new SpareUnit();
  const archive = archivePath(engine, 'spare.tar');
  try {
    await unit.start();
    const job = await Container.start({ engine, worker: ['--vram-mib', '16', '--host-mib', '8'] });
    const first = unit.pid;
    const saved = await job.checkpoint('--keep', '--compress', 'none', '--export', archive);
    assert.equal(saved.status, 0, saved.stderr);
    assert.ok(await wasSpare(job, 'dump'), 'a session was started');
    await job.remove();

    await unit.waits();
    assert.notEqual(unit.pid, first, 'one session takes one checkpoint');
    const restored = await job.restore('--keep', '--import', archive);
    assert.equal(restored.status, 0, restored.stderr);
    assert.ok(await wasSpare(job, 'restore'), 'a session was started');
    assert.match(await job.control.ask('verify'), /^verified bytes=16777216 /);

    // One that does not answer delays a checkpoint, and has no part in it.
    await unit.waits();
    process.kill(unit.pid ?? 0, 'SIGSTOP');
    rmSync(archive);
    const again = await job.checkpoint('--keep', '--leave-running', '--export', archive);
    process.kill(unit.pid ?? 0, 'SIGCONT');
    assert.equal(again.status, 0, again.stderr);
    assert.ok(!(await wasSpare(job, 'dump')));
    assert.match(await job.control.ask('verify'), /^verified bytes=16777216 /);
  } finally {
    await unit.stop();
  }
}

scenario('a spare session takes checkpoint and restore, and a stopped one none', ({ engine }) => {
  const mine = turn.then(() => roundTrip(engine));
  turn = mine.catch(() => {});
  return mine;
});
