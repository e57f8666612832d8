/** Stage containerd: a container is saved and restored through our shim. */

import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Bench } from '../bench.js';
import { ContainerdTask } from '../containerd.js';
import { makeRootfs } from '../rootfs.js';
import { Skipped, type Stage, type StageWork } from '../stage.js';

/** ctr names the shim itself: what containerd's configuration says does not matter. */
export function containerdStage(bench: Bench): Stage {
  return { name: 'containerd', usesGpu: true, run: (work) => tryShim(bench, work) };
}

async function tryShim(bench: Bench, work: StageWork): Promise<void> {
  const version = await bench.run('ctr', ['version']);
  if (version === undefined) throw new Skipped('no ctr in PATH');
  if (version.status !== 0) throw new Skipped('containerd does not run');
  const [gpu] = bench.gpus;
  if (gpu === undefined) throw new Skipped('no GPU');
  const rootfs = await makeRootfs(bench, work, 'containerd-rootfs');
  const folder = join(bench.folder, 'containerd-image');
  work.undo('image folder', () => rm(folder, { recursive: true, force: true }));
  await mkdir(folder, { mode: 0o700 });
  const task = new ContainerdTask(gpu, rootfs, bench, work);
  const ready = await task.start('saved');
  const before = await task.control.verified(ready, task.gpus);
  await task.checkpoint('saved', folder);
  await task.restore('restored', folder);
  await task.control.verified(before, task.gpus);
}
