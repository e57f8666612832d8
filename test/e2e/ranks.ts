/**
 * A job in the manner of RCCL: ranks are processes, each works on a GPU of its own, and they write into each other's
 * buffers, which they have by dma-bufs and by ROCr's IPC. The ranks of three GPUs are neighbours in a ring.
 */

import assert from 'node:assert/strict';
import type { Manifest } from '../../src/manifest/schema.js';
import { archivePath } from './support/archive.js';
import { run } from './support/command.js';
import { Container } from './support/container.js';
import { gpuDevices } from './support/devices.js';
import { gpuWith } from './support/gpu.js';
import { haveNextRocr, nextLibraries, withNextRocr } from './support/releases.js';
import { sessionEnd } from './support/session.js';
import { scenario } from './support/suite.js';

const ring = [
  [0, 1],
  [1, 2],
  [2, 0],
] as const;

/** Each worker has a peer: two ranks at each edge of the ring. */
const edges = ring.map(([from, to]) => {
  const flags = `--gpu ${from} --peer-gpu ${to} --share --ipc --seed ${from + 1}`;
  const command = withNextRocr(`gpu-worker --vram-mib 4 --pending-barrier ${flags}`);
  return `${command} --control /ctl/rank${from} &`;
});

/** Each edge has a buffer of either rank, held as a dma-buf by the other one, and one by IPC alone. */
async function assertShares(archive: string): Promise<void> {
  const text = await run('tar', '-xOf', archive, 'checkpoint/kfd-manifest.json');
  const { ext_files: files, shares } = JSON.parse(text) as Manifest;
  const dmabufs = files.flatMap(({ kind, buffer }) => (kind === 'dmabuf' ? [buffer] : []));
  assert.equal(new Set(dmabufs).size, 2 * ring.length, JSON.stringify(files));
  assert.ok((shares ?? []).length >= ring.length, JSON.stringify(shares));
}

scenario(
  'six ranks on three GPUs that share across GPUs by dma-buf and IPC: each writes what its neighbour reads',
  async ({ engine }) => {
    const job = await Container.start({
      engine,
      devices: gpuDevices(0, 1, 2),
      flags: ['-v', `${nextLibraries}:/next:ro`],
      folders: ring.map(([from]) => `rank${from}`),
      command: ['sh', '-c', `${edges.join(' ')} kfd-opener /ctl`],
    });
    const archive = archivePath(engine, 'ranks.tar');
    const saved = await job.checkpoint('--compress', 'none', '--export', archive);
    assert.equal(saved.status, 0, saved.stderr);
    await assertShares(archive);
    await job.remove();
    const restored = await job.restore('--keep', '--import', archive);
    assert.equal(restored.status, 0, restored.stderr);
    assert.equal((await sessionEnd(job, 'restore'))['processes'], 2 * ring.length + 1);
    // The question has each pair write and compare all shared buffers, to and fro.
    for (const rank of job.inner) {
      assert.match(await rank.ask('verify'), /^verified bytes=4194304 barrier=completed /);
    }
  },
  {
    gpu: gpuWith('gpus=3', 'hive=1'),
    ...(haveNextRocr ? {} : { skip: 'there was no second ROCr when the guest was made' }),
  },
);
