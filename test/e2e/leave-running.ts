/**
 * Three checkpoints of a container with 1,000 BOs. One lets it continue while its contents are written. The session of
 * the next dies then. A later one leaves unchanged contents out.
 */

import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { parseVersion } from '../../src/runtime/versions.js';
import { archivePath } from './support/archive.js';
import { attempt, type Outcome, run, until } from './support/command.js';
import { Container, counter } from './support/container.js';
import { fillVram, forgetFaults, setDmaRate, setVramRate } from './support/gpu.js';
import { assertNoImageFiles } from './support/image-files.js';
import type { Lane } from './support/lanes.js';
import { configure } from './support/product.js';
import { criuLog, type LogLine, sessionLog, sessionThat } from './support/session.js';
import { scenario } from './support/suite.js';

const minutes = 60;
const verified = /^verified bytes=65536000 .*barrier=completed/;

/** Slow enough that contents, ROCr's own with them, are written for some seconds. */
const slowMbps = 60;
const vramMbps = 8000;

/**
 * Runs `body` while copies over the simulated link are slow, but those in VRAM are not, and the GPU's own find room
 * between them.
 */
async function slowly(lane: Lane, body: () => Promise<void>): Promise<void> {
  await lane.meet(() => {
    setDmaRate(slowMbps);
    setVramRate(vramMbps);
    configure({ staging_mib: 8 });
  });
  try {
    await body();
  } finally {
    await lane.meet(() => {
      setDmaRate(0);
      setVramRate(0);
      configure({});
    });
  }
}

/** The session's line about copies that lie in `place`, which it must have. */
function copied(lines: readonly LogLine[], place: 'vram' | 'host'): LogLine {
  const line = lines.find(({ msg }) => msg === 'copied aside');
  assert.equal(line?.['place'], place, JSON.stringify(line));
  return line as LogLine;
}

/** Podman 6 pauses the container until it has written the archive: with a root file system as old as its memory. */
async function podmanPauses(): Promise<boolean> {
  const { major } = parseVersion(await run('podman', '--version')) ?? { major: 0 };
  return major >= 6;
}

function isFrozen(job: Container): boolean {
  const [, cgroup = ''] = readFileSync(`/proc/${job.pid()}/cgroup`, 'utf8').trim().split('::');
  return readFileSync(`/sys/fs/cgroup${cgroup}/cgroup.freeze`, 'utf8').trim() === '1';
}

/** CRIU has let the container go although nobody has the image yet. */
async function computesOnMeanwhile(job: Container): Promise<void> {
  await sessionThat(job, 'dump', 'dump ends');
  if (await podmanPauses()) await until('podman’s own pause', () => isFrozen(job));
  else await job.computesOn();
  const lines = sessionLog(job, 'dump');
  copied(lines, 'vram');
  assert.ok(
    !lines.some(({ msg }) => msg === 'sealed'),
    'the image was sealed before it could continue',
  );
}

scenario(
  '1,000 BOs of 64 KiB, --leave-running, then with that as parent; both restored under other names',
  async (lane) => {
    const { engine } = lane;
    const archive = archivePath(engine, 'left.tar');
    const job = await Container.start({
      engine,
      worker: ['--bos', '1000', '--bo-kib', '64', '--pending-barrier', '--step-ms', '20'],
    });
    const flags = ['--leave-running', '--compress', 'none', '--export'];
    await slowly(lane, async () => {
      const saving = job.checkpoint(...flags, archive);
      await computesOnMeanwhile(job);
      const saved = await saving;
      assert.equal(saved.status, 0, saved.stderr);

      const broken = archivePath(engine, 'broken.tar');
      const breaking = job.checkpoint('--keep', ...flags, broken);
      process.kill((await sessionThat(job, 'dump', 'dump ends')).daemon, 'SIGKILL');
      await assertNoCheckpoint(job, await breaking, broken);
    });

    await job.computesOn();
    assert.match(await job.control.ask('verify', 4 * minutes), verified);
    const end = counter(await job.control.ask('status'));
    const later = archivePath(engine, 'later.tar');
    await lane.meet(fillVram);
    const changed = await attempt(
      ...['kfd-checkpoint', 'checkpoint', '--quiet', '--parent', archive, job.name, '--keep'],
      ...[...flags, later],
    );
    await lane.meet(forgetFaults);
    assert.equal(changed.status, 0, changed.stderr);
    copied(sessionLog(job, 'dump'), 'host');
    assert.ok((await contentBytes(later)) * 50 <= (await contentBytes(archive)));
    await job.computesOn();
    await job.remove();

    const twin = `${job.name}-twin`;
    const restored = await job.restore('--import', archive, '--name', twin);
    assert.equal(restored.status, 0, restored.stderr);
    const resumed = counter(await job.control.ask('status'));
    assert.ok(resumed < end, `counter ${resumed} of the twin is not older than ${end}`);
    assert.match(await job.control.ask('verify', 4 * minutes), verified);
    await run('podman', 'rm', '-f', '-t', '0', twin);

    const alone = await job.restore('--import', later, '--name', `${twin}-2`);
    assert.notEqual(alone.status, 0);
    const whole = await attempt(
      ...['kfd-checkpoint', 'restore', '--quiet', '--parent', archive, later],
      ...['--name', `${twin}-3`],
    );
    assert.equal(whole.status, 0, whole.stderr);
    const last = counter(await job.control.ask('status'));
    assert.ok(last >= end, `counter ${last} is older than ${end}`);
    assert.match(await job.control.ask('verify', 4 * minutes), verified);
  },
);

/** The session has died while it wrote, and the container has continued: no engine may have heard of a success. */
async function assertNoCheckpoint(
  job: Container,
  outcome: Outcome,
  archive: string,
): Promise<void> {
  assert.match(criuLog(job, 'dump'), /its image is not complete: the session died/);
  assert.notEqual(outcome.status, 0, 'the checkpoint should have failed');
  assert.ok(!existsSync(archive), 'an archive of a failed checkpoint');
  assertNoImageFiles(job);
}

/** Bytes of the pages files in an archive. */
async function contentBytes(archive: string): Promise<number> {
  const report = JSON.parse(await run('kfd-checkpoint', 'inspect', '--format', 'json', archive));
  return report.checkpoint_size.amd_gpu_memory_pages_size;
}
