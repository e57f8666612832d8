/** Restores that cannot work: each says why and leaves nothing, and the next one can work. */

import assert from 'node:assert/strict';
import { copyFileSync, existsSync, renameSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { archivePath, flipByte, rewriteArchive, truncateBy } from './support/archive.js';
import { attempt } from './support/command.js';
import { Container } from './support/container.js';
import { assertExplained } from './support/explained.js';
import { gpuWith, loadGpu, setLinkRate, unloadGpu } from './support/gpu.js';
import { configure, loadedPlugin } from './support/product.js';
import { assertNothingLeft, scenario } from './support/suite.js';

const pages = 'amdgpu-pages-0-0000.img';

const damages = [
  {
    name: 'truncated pages file',
    damage: (image: string) => truncateBy(join(image, pages), 8192),
    reason: /amdgpu-pages-0-0000\.img: is \d+ bytes, was \d+ when sealed/,
  },
  {
    name: 'one flipped byte in a frame',
    // In the middle of the file lie frames: the index is a few KiB at the end.
    damage: (image: string) =>
      flipByte(join(image, pages), Math.floor(statSync(join(image, pages)).size / 2)),
    reason: /amdgpu-pages-0-0000\.img: .*(checksum|digest|does not match)/,
  },
  {
    name: 'unsealed manifest',
    damage: (image: string) => rmSync(join(image, 'kfd-manifest.json')),
    reason: /E_IMAGE_UNSEALED/,
  },
] as const;

/** PCI devices of the chips. */
const gfx906 = 'device_id=0x66a1';
const gfx90a = '0x740c';

const targets = [
  {
    name: 'without our plugin',
    prepare: () => renameSync(loadedPlugin, `${loadedPlugin}.away`),
    undo: () => renameSync(`${loadedPlugin}.away`, loadedPlugin),
    reason: /Missing required plugin: kfd_checkpoint/,
  },
  {
    name: 'without a GPU',
    prepare: () => unloadGpu(),
    undo: () => loadGpu(),
    reason: /\/dev\/kfd: not on this host/,
  },
  {
    name: 'with another gfx version',
    prepare: () => loadGpu(gpuWith(gfx906)),
    undo: () => loadGpu(),
    reason: /gfx version was gfx90a, is gfx906 here/,
  },
  {
    name: 'with too little VRAM',
    prepare: () => loadGpu(gpuWith('vram_mb=16')),
    undo: () => loadGpu(),
    reason: /\d+ bytes of VRAM are needed, \d+ are free/,
  },
  {
    name: 'with other device numbers, by podman itself',
    // The first GPU is of another version, so the one that fits has the second render node.
    prepare: () => loadGpu(gpuWith(`${gfx906},${gfx90a}`)),
    undo: () => loadGpu(),
    reason: new RegExp(
      'E_DEVICE_MOVED: gpu 0 \\(renderD128\\): is 226:128 in the archive, ' +
        'and renderD129 \\(226:129\\) here.*kfd-checkpoint restore ARCHIVE',
      's',
    ),
  },
  {
    name: 'too slow for the deadline',
    prepare: () => {
      setLinkRate(5);
      configure({ gate_timeout_s: 3, staging_mib: 8 }); // so that little is in flight when it fails
    },
    undo: () => {
      setLinkRate(0);
      configure({});
    },
    reason: /E_TIMEOUT: upload: not finished 3 s after/,
  },
] as const;

/** Restores from `archive`, which must fail for `reason`, and takes away what the engine keeps. */
async function assertRefused(
  job: Container,
  archive: string,
  name: string,
  reason: RegExp,
): Promise<void> {
  const restored = await job.restore('--import', archive);
  assert.notEqual(restored.status, 0, `${name}: restored all the same`);
  await assertExplained(job, 'restore', restored, reason);
  await job.remove();
}

scenario('damaged archives and unfit targets, then a sound restore', async ({ engine, meet }) => {
  const archive = archivePath(engine, 'sound.tar');
  const job = await Container.start({
    engine,
    worker: ['--vram-mib', '16', '--pending-barrier', '--events-waiter'],
  });
  const saved = await job.checkpoint('--compress', 'none', '--export', archive);
  assert.equal(saved.status, 0, saved.stderr);
  await job.remove();

  for (const { name, damage, reason } of damages) {
    const damaged = archivePath(engine, 'damaged.tar');
    copyFileSync(archive, damaged);
    await rewriteArchive(damaged, damage);
    await assertRefused(job, damaged, name, reason);
    await meet(assertNothingLeft);
  }
  for (const { name, prepare, undo, reason } of targets) {
    await meet(prepare);
    try {
      await assertRefused(job, archive, name, reason);
      await meet(assertNothingLeft);
    } finally {
      await meet(undo);
    }
  }
  const restored = await job.restore('--import', archive);
  assert.equal(restored.status, 0, restored.stderr);
  assert.match(await job.control.ask('verify'), /^verified .*barrier=completed .*waiter=woken/);
});

scenario('SDMA queues whose numbers other processes have got', async ({ engine, meet }) => {
  const archive = archivePath(engine, 'taken.tar');
  const command = ['kfd-worker', '--events'];
  const job = await Container.start({ engine, command });
  await meet(() => undefined); // queues of both engines, side by side
  const saved = await job.checkpoint('--compress', 'none', '--export', archive);
  assert.equal(saved.status, 0, saved.stderr);
  await job.remove();
  await meet(() => undefined);
  const other = await Container.start({ engine, command });
  await meet(() => undefined); // as many queues as before, and so the same numbers
  const checked = await attempt('kfd-checkpoint', 'check', archive);
  if (existsSync('/sys/kernel/debug/kfd/mqds')) {
    // Either engine's process may have got them.
    const taken = /pid \d+ has SDMA queues? [\d, ]+ of gpu \d+ here, and the image needs the same/;
    assert.equal(checked.status, 3, checked.stderr);
    assert.match(checked.stdout, taken);
    await assertRefused(job, archive, 'numbers that are taken', taken);
  } else {
    assert.equal(checked.status, 0, checked.stderr);
    assert.match(checked.stdout, new RegExp(`pid ${other.pid()} has \\d+ SDMA queue`));
    const busy = /KFD RESTORE: Device or resource busy; a recorded number of an SDMA queue/;
    await assertRefused(job, archive, 'numbers that are taken', busy);
  }
  await other.remove();
  await meet(assertNothingLeft);
  const restored = await job.restore('--import', archive);
  assert.equal(restored.status, 0, restored.stderr);
  await job.control.ask('verify');
});
