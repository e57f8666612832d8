/**
 * GPU contents in a folder of their own, on a tmpfs: a checkpoint and its restore, one that leaves out what an earlier
 * folder has, one in place, and one whose session dies.
 */

import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { archivePath } from './support/archive.js';
import { attempt, type Outcome, run } from './support/command.js';
import { Container, type Engine } from './support/container.js';
import { assertExplained } from './support/explained.js';
import { setLinkRate } from './support/gpu.js';
import { assertNoImageFiles } from './support/image-files.js';
import { sessionLog, sessionThat } from './support/session.js';
import { scenario } from './support/suite.js';

const pages = ['amdgpu-pages-0-0000.img'];
const worker = ['--vram-mib', '32', '--pending-barrier'];
const verified = /^verified bytes=33554432 barrier=completed/;
/** Slow enough that a session can be killed while it writes contents, MB/s. */
const slowMbps = 10;

/** Calls `body` with a tmpfs. */
async function onTmpfs(engine: Engine, body: (top: string) => Promise<void>): Promise<void> {
  const top = `/tmp/contents-${engine}`;
  mkdirSync(top, { recursive: true, mode: 0o700 });
  await run('mount', '-t', 'tmpfs', '-o', 'mode=0700', 'tmpfs', top);
  try {
    await body(top);
  } finally {
    await run('umount', top);
  }
}

function save(job: Container, folder: string, ...words: string[]): Promise<Outcome> {
  const ours = ['checkpoint', '--quiet', '--contents', folder];
  const podmans = words.filter((word) => !word.startsWith('--parent-contents='));
  const parents = words.filter((word) => !podmans.includes(word));
  return attempt('kfd-checkpoint', ...ours, ...parents, job.name, ...podmans);
}

function bring(target: string, ...folders: string[]): Promise<Outcome> {
  const named = folders.flatMap((folder) => ['--contents', folder]);
  return attempt('kfd-checkpoint', 'restore', '--quiet', ...named, target);
}

async function assertNoPages(archive: string): Promise<void> {
  const names = (await run('tar', '-tf', archive)).split('\n');
  assert.ok(names.some((name) => name.endsWith('kfd-manifest.json')));
  assert.deepEqual(
    names.filter((name) => name.includes('amdgpu-pages')),
    [],
  );
}

/** Of the session's last checkpoint: frames that it found in the parent, and all frames. */
function references(job: Container): readonly [number, number] {
  const line = sessionLog(job, 'dump').find(({ msg }) => msg === 'drained');
  assert.ok(line, 'no pages file was written');
  const result = line['result'] as { readonly references: number; readonly frames: number };
  return [result.references, result.frames];
}

scenario('contents on a tmpfs: restored from there, refused without', async ({ engine }) => {
  await onTmpfs(engine, async (top) => {
    const folder = join(top, 'job');
    const archive = archivePath(engine, 'job.tar');
    const flags = ['--keep', '--compress', 'none', '--export', archive];
    const job = await Container.start({ engine, worker });
    const saved = await save(job, folder, ...flags);
    assert.equal(saved.status, 0, saved.stderr);
    assert.deepEqual(readdirSync(folder), pages);
    assertNoImagePages(job);
    await assertNoPages(archive);
    await job.remove();

    const byPodman = await job.restore('--keep', '--import', archive);
    assert.notEqual(byPodman.status, 0);
    await assertExplained(job, 'restore', byPodman, /are in a folder of their own/);
    await job.remove();
    const without = await bring(archive);
    assert.equal(without.status, 4, without.stderr);
    assert.match(without.stderr, /are in a folder of their own/);
    const other = join(top, 'other');
    mkdirSync(other, { mode: 0o700 });
    const wrong = await bring(archive, other);
    assert.equal(wrong.status, 4, wrong.stderr);
    assert.match(wrong.stderr, /amdgpu-pages-0-0000\.img/);

    await run('kfd-checkpoint', 'check', '--contents', folder, archive);
    await run('kfd-checkpoint', 'verify', '--quiet', '--contents', folder, archive);
    const restored = await bring(archive, folder);
    assert.equal(restored.status, 0, restored.stderr);
    assert.match(await job.control.ask('verify'), verified);
    assert.match(await job.control.ask('exit'), /^exiting /);
  });
});

/** podman keeps the image with --keep: it has states and manifest alone. */
function assertNoImagePages(job: Container): void {
  const names = readdirSync(join(job.bundle, 'checkpoint'));
  assert.ok(names.includes('kfd-manifest.json'));
  assert.deepEqual(
    names.filter((name) => name.startsWith('amdgpu-pages')),
    [],
  );
}

scenario('contents with a parent, both in folders, and in place', async ({ engine }) => {
  await onTmpfs(engine, async (top) => {
    const [base, later, last] = [join(top, 'base'), join(top, 'later'), join(top, 'last')];
    const job = await Container.start({ engine, worker });
    const first = archivePath(engine, 'first.tar');
    const flags = ['--keep', '--compress', 'none', '--export'];
    // A short freeze: the container goes on while its contents are written to the folder.
    const left = await save(job, base, '--leave-running', ...flags, first);
    assert.equal(left.status, 0, left.stderr);
    await job.computesOn();
    const second = archivePath(engine, 'second.tar');
    const saved = await save(job, later, `--parent-contents=${base}`, ...flags, second);
    assert.equal(saved.status, 0, saved.stderr);
    const [found, frames] = references(job);
    assert.ok(found > 0 && found < frames, `${found} of ${frames} frames are in the parent`);
    await job.remove();

    const alone = await bring(second, later);
    assert.equal(alone.status, 4, alone.stderr);
    assert.match(alone.stderr, /parent: contents that had not changed are in base/);
    const restored = await bring(second, later, base);
    assert.equal(restored.status, 0, restored.stderr);
    await job.computesOn();

    const inPlace = await save(job, last);
    assert.equal(inPlace.status, 0, inPlace.stderr);
    const back = await bring(job.name, last);
    assert.equal(back.status, 0, back.stderr);
    assert.match(await job.control.ask('verify'), verified);
    assert.match(await job.control.ask('exit'), /^exiting /);
  });
});

scenario('a session that dies leaves no contents in the folder', async ({ engine, meet }) => {
  await onTmpfs(engine, async (top) => {
    const folder = join(top, 'job');
    const archive = archivePath(engine, 'broken.tar');
    const job = await Container.start({ engine, worker });
    await meet(() => setLinkRate(slowMbps));
    try {
      const saving = save(job, folder, '--compress', 'none', '--export', archive);
      process.kill((await sessionThat(job, 'dump', 'draining')).daemon, 'SIGKILL');
      const failed = await saving;
      assert.notEqual(failed.status, 0, 'the checkpoint should have failed');
    } finally {
      await meet(() => setLinkRate(0));
    }
    assert.ok(!existsSync(archive), 'an archive of a failed checkpoint');
    assert.deepEqual(readdirSync(folder), []);
    assertNoImageFiles(job);
    await job.computesOn();
    assert.match(await job.control.ask('verify'), verified);
  });
});
