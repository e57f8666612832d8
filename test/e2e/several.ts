/** Several GPU processes in one container, on some of the host's several GPUs. */

import assert from 'node:assert/strict';
import { basename, dirname } from 'node:path';
import type { Manifest } from '../../src/manifest/schema.js';
import { archivePath } from './support/archive.js';
import { sessionCgroups } from './support/cgroups.js';
import { run, until } from './support/command.js';
import { Container } from './support/container.js';
import { gpuDevices } from './support/devices.js';
import { gpuWith } from './support/gpu.js';
import { haveNextRocr, nextLibraries, withNextRocr } from './support/releases.js';
import { sessionEnd, startedSession } from './support/session.js';
import { scenario } from './support/suite.js';

const worker = 'gpu-worker --vram-mib 4 --pending-barrier --events-waiter';

const sharer = haveNextRocr ? withNextRocr(`${worker} --share --ipc`) : `${worker} --share`;

/** Commands of the children, which report in folders of their own, by folder. */
const children: Readonly<Record<string, string>> = {
  opener: 'kfd-opener @',
  first: `${worker} --gpu 1 --seed 2 --control @`,
  second: `${worker} --gpu 0 --seed 2 --control @`, // the same contents, on another GPU
  holder: `${worker} --gpu 1 --seed 4 --dmabuf --fork-holder --double-kfd --other-gpu --control @`,
};
const started = Object.entries(children).map(
  ([folder, command]) => `${command.replace('@', `/ctl/${folder}`)} &`,
);

/** A session that dies while a task is in a cgroup that it made: that goes with those of the container. */
async function killWhileNarrowed(job: Container, archive: string): Promise<void> {
  const restoring = job.restore('--import', archive);
  const { daemon } = await until('a session', () => startedSession(job, 'restore'));
  // Until RESTORE has returned: some hundredths of a second.
  const id = basename(dirname(job.bundle));
  const isNarrowed = () => sessionCgroups().some((path) => path.includes(id));
  await until('a task that sees its GPUs alone', isNarrowed, 60, 1);
  process.kill(daemon, 'SIGKILL');
  const restored = await restoring;
  assert.notEqual(restored.status, 0, 'the restore should have failed');
  await job.remove();
}

/**
 * Of the two that share, each holds a dma-buf of the other's; the holder's child inherited one. By ROCr's IPC they
 * share one more, whose dma-buf nobody keeps.
 */
async function assertStoredOnce(archive: string): Promise<void> {
  const text = await run('tar', '-xOf', archive, 'checkpoint/kfd-manifest.json');
  const { ext_files: files, shares } = JSON.parse(text) as Manifest;
  const dmabufs = files.flatMap(({ kind, buffer }) => (kind === 'dmabuf' ? [buffer] : []));
  assert.equal(new Set(dmabufs).size, 3, JSON.stringify(files));
  assert.equal(dmabufs.length, 3, JSON.stringify(files));
  assert.equal(shares?.length, haveNextRocr ? 2 : 1, JSON.stringify(shares));
}

/** Equal contents of two processes, each with a pages file of its own. */
async function assertReferredTo(archive: string): Promise<void> {
  const text = await run('kfd-checkpoint', 'verify', '--quiet', '--format', 'json', archive);
  const { sound, files } = JSON.parse(text) as { sound: boolean; files: { siblings?: number }[] };
  assert.equal(sound, true, text);
  assert.ok(
    files.some(({ siblings = 0 }) => siblings > 0),
    text,
  );
}

scenario(
  'GPU processes on two of three GPUs: sharing a buffer, forked, with nothing but /dev/kfd',
  async ({ engine }) => {
    const job = await Container.start({
      engine,
      devices: gpuDevices(0, 1),
      flags: haveNextRocr ? ['-v', `${nextLibraries}:/next:ro`] : [],
      folders: Object.keys(children),
      command: ['sh', '-c', `${started.join(' ')} ${sharer}; echo ended`],
    });
    const archive = archivePath(engine, 'several.tar');
    const saved = await job.checkpoint('--keep', '--compress', 'none', '--export', archive);
    assert.equal(saved.status, 0, saved.stderr);
    // Those above, the first of them, and the one that it shares a buffer with.
    assert.equal((await sessionEnd(job, 'dump'))['processes'], Object.keys(children).length + 2);
    await assertStoredOnce(archive);
    await assertReferredTo(archive);
    await job.remove();
    await killWhileNarrowed(job, archive);
    const restored = await job.restore('--keep', '--import', archive);
    assert.equal(restored.status, 0, restored.stderr);
    for (const control of [job.control, ...job.inner]) {
      assert.match(
        await control.ask('verify'),
        /^verified (bytes=4194304 barrier=completed .*waiter=woken|kfd=)/,
      );
    }
    for (const control of job.inner) assert.match(await control.ask('exit'), /^exiting/);
    assert.match(await job.control.ask('exit'), /^exiting/);
  },
  { gpu: gpuWith('gpus=3', 'hive=1') },
);

// The buffer above is then shared by its dma-buf alone.
if (!haveNextRocr) {
  const reason = 'there was no second ROCr when the guest was made';
  scenario("sharing by ROCr's IPC", async () => undefined, { skip: reason });
}
