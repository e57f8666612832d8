/** SIGKILL or a cancel in the middle: a failed checkpoint leaves the container computing, a failed restore
 * leaves nothing. */

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { archivePath } from './support/archive.js';
import { run, until } from './support/command.js';
import { Container } from './support/container.js';
import { assertExplained } from './support/explained.js';
import { setLinkRate } from './support/gpu.js';
import { assertNoImageFiles } from './support/image-files.js';
import type { Lane } from './support/lanes.js';
import { configure } from './support/product.js';
import { sessionLog, sessionThat, startedSession } from './support/session.js';
import { assertNothingLeft, scenario } from './support/suite.js';
import { cancelWhileMoving } from './support/watched.js';

/** Slow enough that 64 MiB and ROCr's own buffers are in flight for many seconds. */
const slowMbps = 25;

/** Runs `body` while copies on the simulated GPU are slow. */
async function slowly(lane: Lane, body: () => Promise<void>): Promise<void> {
  await lane.meet(() => setLinkRate(slowMbps));
  try {
    await body();
  } finally {
    await lane.meet(() => setLinkRate(0));
  }
}

/**
 * So slow, and with so few copies at once, that there is time to look; what is in flight when a cancel comes is over
 * soon.
 */
async function slowlyInSmallSteps(lane: Lane, body: () => Promise<void>): Promise<void> {
  await lane.meet(() => {
    setLinkRate(6);
    configure({ staging_mib: 8 });
  });
  try {
    await body();
  } finally {
    await lane.meet(() => {
      setLinkRate(0);
      configure({});
    });
  }
}

async function assertComputesOn(job: Container): Promise<void> {
  assert.equal(await job.status(), 'running');
  await job.computesOn();
  assert.match(await job.control.ask('verify'), /^verified .*barrier=completed/);
}

const worker = ['--vram-mib', '32', '--pending-barrier', '--step-ms', '20'];

scenario('session cancelled, then killed, while it drains and while it uploads', async (lane) => {
  const { engine } = lane;
  const archive = archivePath(engine, 'killed.tar');
  const job = await Container.start({ engine, worker });
  await slowlyInSmallSteps(lane, async () => {
    const saving = job.checkpoint();
    const assertTold = await cancelWhileMoving(job, 'dump', 'host goes down');
    const saved = await saving;
    assert.notEqual(saved.status, 0, 'the checkpoint should have failed');
    await assertExplained(job, 'dump', saved, /E_CANCELLED: session: cancelled: host goes down/);
    await assertTold();
  });
  assertNoImageFiles(job);
  await assertComputesOn(job);

  await slowly(lane, async () => {
    const saving = job.checkpoint();
    process.kill((await sessionThat(job, 'dump', 'draining')).daemon, 'SIGKILL');
    const saved = await saving;
    assert.notEqual(saved.status, 0, 'the checkpoint should have failed');
    await assertExplained(job, 'dump', saved, /session/);
  });
  assertNoImageFiles(job);
  await assertComputesOn(job);

  const saved = await job.checkpoint('--compress', 'none', '--export', archive);
  assert.equal(saved.status, 0, `a retry: ${saved.stderr}`);
  await job.remove();
  await slowlyInSmallSteps(lane, async () => {
    const restoring = job.restore('--import', archive);
    const assertTold = await cancelWhileMoving(job, 'restore', 'host goes down');
    const restored = await restoring;
    assert.notEqual(restored.status, 0, 'the restore should have failed');
    await assertExplained(
      job,
      'restore',
      restored,
      /E_CANCELLED: session: cancelled: host goes down/,
    );
    await assertTold();
  });
  await job.remove();
  await lane.meet(assertNothingLeft);

  await slowly(lane, async () => {
    const restoring = job.restore('--import', archive);
    process.kill((await sessionThat(job, 'restore', 'uploading')).daemon, 'SIGKILL');
    const restored = await restoring;
    assert.notEqual(restored.status, 0, 'the restore should have failed');
    await assertExplained(job, 'restore', restored, /session/);
  });
  await job.remove();
  await lane.meet(assertNothingLeft);
  const again = await job.restore('--import', archive);
  assert.equal(again.status, 0, `a retry: ${again.stderr}`);
  assert.match(await job.control.ask('verify'), /^verified .*barrier=completed/);
});

scenario('cancelled before anything was read, then CRIU killed during the dump', async (lane) => {
  const job = await Container.start({ engine: lane.engine, worker });
  const cancelled = job.checkpoint();
  const { criu } = await until('a session', () => startedSession(job, 'dump'));
  process.kill(criu, 'SIGSTOP');
  await until('its socket', () => existsSync(`/run/kfd-checkpoint/${criu}/control.sock`));
  await run('kfd-checkpoint', 'cancel', String(criu), '--reason', 'too early');
  process.kill(criu, 'SIGCONT');
  const failed = await cancelled;
  assert.notEqual(failed.status, 0, 'the checkpoint should have failed');
  await assertExplained(job, 'dump', failed, /E_CANCELLED: session: cancelled: too early/);
  const said = sessionLog(job, 'dump').map(({ msg }) => msg);
  assert.ok(said.includes('cancelled') && !said.includes('draining'), said.join(', '));
  assertNoImageFiles(job);
  await assertComputesOn(job);

  await slowly(lane, async () => {
    const saving = job.checkpoint();
    process.kill((await sessionThat(job, 'dump', 'stage')).criu, 'SIGKILL');
    const saved = await saving;
    assert.notEqual(saved.status, 0, 'the checkpoint should have failed');
  });
  await assertComputesOn(job);
  assertNoImageFiles(job);
});
