/** SIGKILL in the middle: a failed checkpoint leaves the container computing, a failed restore
 * leaves nothing. */

import assert from 'node:assert/strict';
import { archivePath } from './support/archive.js';
import { attempt, until } from './support/command.js';
import { Container } from './support/container.js';
import { assertExplained } from './support/explained.js';
import { lastSession, sessionLogs, sessionPids, setDmaRate } from './support/product.js';
import { assertNothingLeft, scenario } from './support/suite.js';

/** Slow enough that 64 MiB and ROCr's own buffers are in flight for tens of seconds. */
const slowMbps = 8;

/** Runs `body` while copies on the simulated GPU are slow. */
async function slowly(body: () => Promise<void>): Promise<void> {
  setDmaRate(slowMbps);
  try {
    await body();
  } finally {
    setDmaRate(0);
  }
}

/** The pid of the session daemon, once it logs `message` in a log newer than `known` ones. */
async function sessionThat(
  operation: 'dump' | 'restore',
  message: string,
  known: number,
): Promise<number> {
  await until(`a ${operation} session that logs "${message}"`, () => {
    if (sessionLogs(operation).length <= known) return false;
    return lastSession(operation).some((line) => line.msg === message);
  });
  const [pid] = sessionPids();
  assert.ok(pid !== undefined, 'no session daemon');
  return pid;
}

async function assertComputesOn(job: Container): Promise<void> {
  assert.equal(job.status(), 'running');
  const counter = (reply: string) => Number(/counter=(\d+)/.exec(reply)?.[1]);
  const before = counter(await job.control.ask('status'));
  const after = counter(await job.control.ask('status'));
  assert.ok(after > before, `the counter stands at ${before}`);
  assert.match(await job.control.ask('verify'), /^verified .*barrier=completed/);
}

const worker = ['--vram-mib', '64', '--pending-barrier', '--step-ms', '20'];

scenario('session killed while it drains', async (engine) => {
  const job = await Container.start({ engine, worker });
  await slowly(async () => {
    const known = sessionLogs('dump').length;
    const saving = job.checkpointInBackground();
    process.kill(await sessionThat('dump', 'draining', known), 'SIGKILL');
    const saved = await saving;
    assert.notEqual(saved.status, 0, 'the checkpoint should have failed');
    assertExplained(job, 'dump', saved, /session/);
  });
  await assertComputesOn(job);
  const again = job.checkpoint();
  assert.equal(again.status, 0, `a retry: ${again.stderr}`);
});

scenario('CRIU killed during the dump', async (engine) => {
  const job = await Container.start({ engine, worker });
  await slowly(async () => {
    const known = sessionLogs('dump').length;
    const saving = job.checkpointInBackground();
    await sessionThat('dump', 'stage', known);
    attempt('pkill', '-KILL', '-x', 'criu');
    const saved = await saving;
    assert.notEqual(saved.status, 0, 'the checkpoint should have failed');
  });
  await assertComputesOn(job);
});

scenario('session killed while it uploads', async (engine) => {
  const archive = archivePath('upload.tar');
  const job = await Container.start({ engine, worker });
  const saved = job.checkpoint('--compress', 'none', '--export', archive);
  assert.equal(saved.status, 0, saved.stderr);
  job.remove();
  await slowly(async () => {
    const known = sessionLogs('restore').length;
    const restoring = job.restoreInBackground('--import', archive);
    process.kill(await sessionThat('restore', 'uploading', known), 'SIGKILL');
    const restored = await restoring;
    assert.notEqual(restored.status, 0, 'the restore should have failed');
    assertExplained(job, 'restore', restored, /session/);
  });
  job.remove();
  const again = job.restore('--import', archive);
  assert.equal(again.status, 0, `a retry: ${again.stderr}`);
  assert.match(await job.control.ask('verify'), /^verified .*barrier=completed/);
  job.remove();
  await assertNothingLeft();
});
