/**
 * Checkpoint images: in podman's storage, in a layout and in an archive of one; the last restore where `/dev/kfd` has
 * another number.
 */

import assert from 'node:assert/strict';
import { archivePath } from './support/archive.js';
import { attempt, run } from './support/command.js';
import { Container, removeContainers } from './support/container.js';
import { assertExplained } from './support/explained.js';
import { goHome, loadGpu, takeMajor } from './support/gpu.js';
import { scenario } from './support/suite.js';

const worker = ['--vram-mib', '16', '--pending-barrier'];

/** Brings the container back from what `name` means, compares its contents, and ends it. */
async function comesBack(job: Container, name: string): Promise<void> {
  const restored = await attempt('kfd-checkpoint', 'restore', '--quiet', name);
  assert.equal(restored.status, 0, `${name}: ${restored.stderr}`);
  assert.match(await job.control.ask('verify'), /^verified bytes=\d+ barrier=completed/);
  await job.computesOn();
  await job.remove();
}

scenario('a checkpoint image, by name and as files, and with other numbers', async (lane) => {
  const { engine, meet } = lane;
  const image = `localhost/saved-${engine}:1`;
  const stored = `containers-storage:${image}`;
  const layout = `oci:${archivePath(engine, 'layout')}`;
  const file = archivePath(engine, 'image.tar');
  try {
    const job = await Container.start({ engine, worker });
    await run(
      'podman',
      '--runtime',
      engine,
      'container',
      'checkpoint',
      '--create-image',
      image,
      job.name,
    );
    await job.remove();
    await run('podman', 'push', image, layout);
    await run('podman', 'save', '--quiet', '--format', 'oci-archive', '--output', file, image);

    for (const name of [stored, layout, `oci-archive:${file}`]) {
      const { source } = JSON.parse(
        await run('kfd-checkpoint', 'inspect', '--format', 'json', name),
      );
      assert.equal(source.path, name);
      await run('kfd-checkpoint', 'verify', '--quiet', name);
      const found = await run('kfd-checkpoint', 'check', name);
      const command =
        name === stored
          ? `podman --runtime ${engine} container restore ${image}`
          : `kfd-checkpoint restore ${name}`;
      assert.ok(found.endsWith(`would restore here by: ${command}`), found);
      await comesBack(job, name);
    }

    await meet(async () => {
      await takeMajor();
      await loadGpu();
    });
    const refused = await attempt('podman', '--runtime', engine, 'container', 'restore', image);
    assert.notEqual(refused.status, 0);
    await assertExplained(job, 'restore', refused, /E_DEVICE_MOVED/);
    await job.remove();
    await comesBack(job, stored);
    // The other lane may just have its own one mounted.
    const mounted = await run('podman', 'image', 'mount');
    assert.ok(!mounted.includes(image), mounted);
  } finally {
    await removeContainers(engine);
    await attempt('podman', 'rmi', '--force', image);
    await meet(goHome);
  }
});
