/** Targets that lack something the source had. */

import assert from 'node:assert/strict';
import { renameSync } from 'node:fs';
import { archivePath } from './support/archive.js';
import { Container } from './support/container.js';
import { assertExplained } from './support/explained.js';
import {
  configure,
  loadedPlugin,
  loadGpu,
  reloadGpu,
  setDmaRate,
  unloadGpu,
} from './support/product.js';
import { scenario } from './support/suite.js';

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
    prepare: () => reloadGpu('gfx_target_version=90006'),
    undo: () => reloadGpu(),
    reason: /gfx version was gfx90a, is gfx906 here/,
  },
  {
    name: 'with too little VRAM',
    prepare: () => reloadGpu('vram_mb=32'),
    undo: () => reloadGpu(),
    reason: /\d+ bytes of VRAM are needed, \d+ are free/,
  },
  {
    name: 'too slow for the deadline',
    prepare: () => {
      setDmaRate(5);
      configure({ gate_timeout_s: 10 });
    },
    undo: () => {
      setDmaRate(0);
      configure({});
    },
    reason: /E_TIMEOUT: upload: not finished 10 s after/,
  },
] as const;

scenario(
  'targets that cannot take the container say why, and a retry works',
  async ({ engine, meet }) => {
    const archive = archivePath(engine, 'traveller.tar');
    const job = await Container.start({
      engine,
      worker: ['--vram-mib', '64', '--pending-barrier'],
    });
    const saved = await job.checkpoint('--compress', 'none', '--export', archive);
    assert.equal(saved.status, 0, saved.stderr);
    await job.remove();

    for (const target of targets) {
      await meet(target.prepare);
      try {
        const restored = await job.restore('--import', archive);
        assert.notEqual(restored.status, 0, `${target.name}: restored all the same`);
        await assertExplained(job, 'restore', restored, target.reason);
        await job.remove();
      } finally {
        await meet(target.undo);
      }
    }
    const restored = await job.restore('--import', archive);
    assert.equal(restored.status, 0, restored.stderr);
    assert.match(await job.control.ask('verify'), /^verified .*barrier=completed/);
  },
);
