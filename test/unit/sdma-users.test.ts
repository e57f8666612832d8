import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { KfdError } from '../../src/errors.js';
import { placeAsIs, placeOnHost } from '../../src/gpu/compare.js';
import { readHost } from '../../src/gpu/host.js';
import { pairGpus } from '../../src/gpu/pair.js';
import { withRisks } from '../../src/gpu/sdma-risks.js';
import { readSdmaUsers } from '../../src/gpu/sdma-users.js';
import type { Manifest } from '../../src/manifest/schema.js';
import { hostWith } from './host-builder.js';
import { sampleManifest } from './manifest-sample.js';
import { temporaryFolder } from './paths.js';
import { bentHost } from './sysfs-tree.js';

const proc = 'sys/class/kfd/kfd/proc';

/** Queue files as the kernel shows them: without a newline. */
async function addQueue(root: string, place: string, type: number, gpu: number): Promise<void> {
  const folder = join(root, proc, place);
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, 'size'), '65536');
  await writeFile(join(folder, 'type'), `${type}`);
  await writeFile(join(folder, 'gpuid'), `${gpu}`);
}

test('SDMA queues of all processes are counted by GPU, whichever way the kernel numbers them', async (t) => {
  const root = await temporaryFolder(t);
  assert.deepEqual(await readSdmaUsers(root), new Map());
  await addQueue(root, '301/queues/0', 0, 10);
  await addQueue(root, '301/queues/1', 1, 10);
  await addQueue(root, '301/queues/2', 4, 10);
  await addQueue(root, '301/queues/3', 1, 20);
  await addQueue(root, '42/queues/0', 3, 20);
  await addQueue(root, '42/context_1/queues/0', 1, 20);
  await addQueue(root, '7/queues/0', 0, 20);
  // It goes while it is read.
  await mkdir(join(root, proc, '9/queues/0'), { recursive: true });
  assert.deepEqual(
    await readSdmaUsers(root),
    new Map([
      [
        20,
        [
          { pid: 42, queues: 2 },
          { pid: 301, queues: 1 },
        ],
      ],
      [10, [{ pid: 301, queues: 2 }]],
    ]),
  );
});

test('a host knows the users of each of its GPUs', async (t) => {
  const root = await bentHost(t, 'two-gpus', {});
  const before = await readHost({ root });
  assert.deepEqual(
    before.gpus.map(({ sdmaUsers }) => sdmaUsers),
    [[], []],
  );
  await addQueue(root, '42/queues/0', 1, before.gpus[1]?.record.gpu_id ?? 0);
  const { gpus } = await readHost({ root });
  assert.deepEqual(
    gpus.map(({ sdmaUsers }) => sdmaUsers),
    [[], [{ pid: 42, queues: 1 }]],
  );
});

const users = [{ pid: 71, queues: 2 }];
const nodes = ({
  pairs,
}: {
  pairs: readonly { present: { record: { render_minor: number } } }[];
}) => pairs.map(({ present }) => present.record.render_minor);

test('a GPU where others have SDMA queues is avoided where the archive may be rewritten', () => {
  const manifest = sampleManifest();
  const host = hostWith({ render_minor: 128, sdma: users }, { render_minor: 129 }, {});
  assert.deepEqual(nodes(pairGpus(manifest, host)), [142, 129]);
  // A refusal because of another render node would be worse than the risk.
  assert.deepEqual(nodes(pairGpus(manifest, host, {}, { archive: 'asIs' })), [128, 129]);
  assert.deepEqual(nodes(placeAsIs(manifest, host)), [128, 129]);
  // Without another one it is taken nevertheless.
  const both = hostWith({ render_minor: 128, sdma: users }, { render_minor: 129, sdma: users });
  assert.deepEqual(nodes(pairGpus(manifest, both)), [128, 129]);
  // Between two whose nodes are others anyway it is avoided, too.
  const moved = hostWith({ sdma: users }, {}, {});
  assert.deepEqual(nodes(pairGpus(manifest, moved, {}, { archive: 'asIs' })), [141, 142]);
});

test('an image without SDMA queues goes anywhere; one that does not tell may have them', () => {
  const without = (gpus: number[]): Manifest => {
    const manifest = sampleManifest();
    Object.assign(manifest.processes[0] as object, { sdma_gpus: gpus });
    return manifest;
  };
  const host = hostWith({ render_minor: 128, sdma: users }, { render_minor: 129 }, {});
  assert.deepEqual(nodes(pairGpus(without([1]), host)), [128, 129]);
  assert.deepEqual(placeOnHost(without([]), host).risks, []);
  assert.deepEqual(nodes(pairGpus(without([0]), host)), [142, 129]);
});

test('the risk names processes, GPU and next step, and is no reason against a restore', () => {
  const host = hostWith({ render_minor: 128, sdma: users }, { render_minor: 129 });
  const { risks, mismatches } = placeAsIs(sampleManifest(), host);
  assert.deepEqual(mismatches, []);
  assert.deepEqual(
    risks.map(({ gpu, message }) => [gpu, message]),
    [
      [
        0,
        'gpu 0 (renderD128): pid 71 has 2 SDMA queue(s) on gpu 1000 here; ' +
          'RESTORE fails with EBUSY when they are queues with recorded numbers',
      ],
    ],
  );
  assert.match(risks[0]?.hint ?? '', /gpu_map/);
  // RESTORE's EBUSY is explained by it; other failures are not.
  const failed = (message: string) => withRisks(new KfdError('E_GPU_IO', message), risks);
  assert.match(failed('KFD RESTORE: Device or resource busy').hint ?? '', /pid 71 has 2 SDMA/);
  assert.equal(failed('KFD RESTORE: Invalid argument').hint, undefined);
  assert.equal(withRisks(failed('KFD RESTORE: Device or resource busy'), []).code, 'E_GPU_IO');
});
