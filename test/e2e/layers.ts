/** Checkpoint images in layers: a second push of unchanged contents, and a restore by podman alone. */

import assert from 'node:assert/strict';
import { mkdirSync, rmSync } from 'node:fs';
import { archivePath } from './support/archive.js';
import { attemptWithin, run } from './support/command.js';
import { Container } from './support/container.js';
import { CountingRelay } from './support/counting-relay.js';
import { noRegistry, Registry } from './support/registry.js';
import { scenario } from './support/suite.js';

/** LAYERS_MIB: more than the guest has time for in the suite. */
const vramMib = Number(process.env['LAYERS_MIB'] ?? 512);
/** Compression and digests are slow in the guest. */
const pushS = 1200;

/** With a folder for blobs on their way that has room: the guest's disk has little. */
function podman(...words: string[]) {
  const temporary = '/var/lib/containers/tmp';
  mkdirSync(temporary, { recursive: true });
  return attemptWithin(pushS, 'env', `TMPDIR=${temporary}`, 'podman', ...words);
}

/** Makes the next image of the container, which goes on, and pushes it. Returns the bytes that were sent. */
async function push(job: Container, relay: CountingRelay, number: number): Promise<number> {
  const archive = archivePath(job.engine, `job-${number}.tar`);
  const layout = archivePath(job.engine, 'layout');
  const flags = ['--leave-running', '--compress', 'none', '--export', archive];
  const saved = await job.checkpoint(...flags);
  assert.equal(saved.status, 0, saved.stderr);
  const name = `${relay.registry}/${job.engine}/job:${number}`;
  const made = await attemptWithin(
    pushS,
    'kfd-checkpoint',
    'image',
    archive,
    `oci:${layout}:${name}`,
  );
  assert.equal(made.status, 0, made.stderr);
  rmSync(archive);
  const before = relay.sent;
  for (const words of [
    ['pull', '--quiet', `oci:${layout}:${name}`],
    ['push', '--quiet', name],
  ]) {
    const done = await podman(...words);
    assert.equal(done.status, 0, done.stderr);
  }
  return relay.sent - before;
}

let registry: Registry | undefined;

scenario(
  'layers: a second push of unchanged contents, and a restore by podman alone',
  async ({ engine, meet }) => {
    let relay: CountingRelay | undefined;
    try {
      await meet(async () => {
        registry = await Registry.start();
      });
      // One engine suffices: none of it depends on that, and it takes minutes.
      if (engine !== 'crun') return;
      relay = await CountingRelay.start(5001);
      const job = await Container.start({ engine, worker: ['--vram-mib', `${vramMib}`] });
      const first = await push(job, relay, 1);
      assert.ok(first > vramMib * 0.9 * 2 ** 20, `${first} bytes: less than the contents`);
      const second = await push(job, relay, 2);
      assert.ok(second <= first * 0.02, `${second} bytes were sent again of ${first}`);
      process.stdout.write(`# layers: pushed ${first} bytes, then ${second}\n`);
      await job.remove();
      const name = `${relay.registry}/${engine}/job:2`;
      await run('podman', 'rmi', name, `${relay.registry}/${engine}/job:1`);
      const pulled = await podman('pull', '--quiet', name);
      assert.equal(pulled.status, 0, pulled.stderr);
      await run('kfd-checkpoint', 'verify', '--quiet', `containers-storage:${name}`);
      const restored = await job.restore(name);
      assert.equal(restored.status, 0, restored.stderr);
      assert.match(await job.control.ask('verify'), /^verified bytes=\d+/);
      await job.computesOn();
      await job.remove();
      await run('podman', 'rmi', name);
      const layout = `oci:${archivePath(engine, 'layout')}:${name}`;
      const again = await attemptWithin(pushS, 'kfd-checkpoint', 'restore', '--quiet', layout);
      assert.equal(again.status, 0, again.stderr);
      assert.match(await job.control.ask('verify'), /^verified bytes=\d+/);
    } finally {
      await relay?.stop();
      await meet(async () => {
        await registry?.stop();
        registry = undefined;
      });
    }
  },
  noRegistry === undefined ? {} : { skip: noRegistry },
);
