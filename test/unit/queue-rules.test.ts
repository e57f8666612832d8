import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { KfdQueue } from '../../src/gpu/kfd-objects.js';
import { lostQueues } from '../../src/gpu/queue-rules.js';
import type { ManifestGpu } from '../../src/manifest/schema.js';
import { sampleManifest } from './manifest-sample.js';

function queue(kind: KfdQueue['kind'], mqdBytes: number): KfdQueue {
  return { id: 3, gpuId: 51966, kind, ringBytes: 4096, priority: 7, mqdBytes };
}

function lost(one: KfdQueue, gfx: number, dies: number, kernel = '7.3.4'): string[] {
  const [sample] = sampleManifest().gpus;
  const gpu = { ...(sample as ManifestGpu), gfx_target_version: gfx, num_xcc: dies };
  return lostQueues([one], (id) => (id === gpu.gpu_id ? gpu : undefined), {
    kernelRelease: kernel,
    gpus: [gpu],
  });
}

test('queues that come back are not refused', () => {
  assert.deepEqual(lost(queue('compute', 2048), 90010, 1), []);
  assert.deepEqual(lost(queue('sdma', 512), 90010, 1), []);
  assert.deepEqual(lost(queue('compute', 2048), 100300, 1), []);
  assert.deepEqual(lost(queue('compute', 2048), 90402, 1), []);
  assert.deepEqual(lost(queue('sdma', 512), 90402, 8), []);
});

test('a compute queue of which one of several dies was saved is refused', () => {
  const [reason = ''] = lost(queue('compute', 2048), 90402, 8);
  assert.match(reason, /^queue 3 runs on 8 compute dies, of which this kernel saves one/);
});

test('a queue of which all dies were saved is refused: RESTORE takes one die alone', () => {
  const saved = { compute: 2048, sdma: 512 } as const;
  for (const kind of ['compute', 'sdma'] as const) {
    const [reason = ''] = lost(queue(kind, 8 * saved[kind]), 90402, 8);
    assert.match(reason, /^queue 3 runs on 8 compute dies, .* it does not take back$/);
  }
});

test('every queue of gfx11 and later is refused', () => {
  for (const [gfx, name] of [
    [110000, 'gfx1100'],
    [120001, 'gfx1201'],
  ] as const) {
    for (const kind of ['compute', 'sdma'] as const) {
      assert.deepEqual(lost(queue(kind, 2048), gfx, 1), [
        `queue 3 is on a ${name}: no kernel can bring back queues of gfx11 and later`,
      ]);
    }
  }
});

test('compute queues of gfx10 are refused where RESTORE wants control stacks', () => {
  const refusedOn = (kernel: string) => lost(queue('compute', 2048), 100300, 1, kernel).length > 0;
  assert.equal(refusedOn('6.12.117+deb13-amd64'), true);
  assert.equal(refusedOn('6.12.107-1'), false);
  assert.equal(refusedOn('7.3.4+deb13-amd64'), false);
  assert.deepEqual(lost(queue('sdma', 520), 100300, 1, '6.12.117'), []);
  assert.deepEqual(lost(queue('compute', 2048), 90010, 1, '6.12.117'), []);
});

test('a queue on a GPU that is not known is refused', () => {
  const host = { kernelRelease: '7.3.4', gpus: [] };
  const [reason] = lostQueues([queue('compute', 2048)], () => undefined, host);
  assert.equal(reason, 'queue 3 is on GPU 51966, which the topology of this host does not have');
});

test('compute queues of a partition are refused where RESTORE overruns the memory of the queue', () => {
  const [sample] = sampleManifest().gpus;
  const on = (kernelRelease: string, kind: KfdQueue['kind'], locations: readonly string[]) => {
    const gpus = locations.map((location, index) => ({
      ...(sample as ManifestGpu),
      gpu_id: 51966 + index,
      gfx_target_version: 90402,
      num_xcc: 1,
      location,
    }));
    return lostQueues([queue(kind, 2048)], () => gpus[0], { kernelRelease, gpus });
  };
  const partitions = ['0000:0b:00.0', '0000:0b:00.1'];
  const refusedOn = (kernel: string) => on(kernel, 'compute', partitions).length > 0;
  assert.equal(refusedOn('6.12.117+deb13-amd64'), false);
  assert.equal(refusedOn('6.16.3'), false);
  assert.equal(refusedOn('6.16.4'), true);
  assert.equal(refusedOn('6.17-rc1'), true);
  assert.equal(refusedOn('7.2.13+deb14-amd64'), true);
  assert.equal(refusedOn('7.3.4+deb13-amd64'), false);
  assert.match(on('7.2.13', 'compute', partitions)[0] ?? '', /^queue 3 is on a partition of a GPU/);
  assert.deepEqual(on('7.2.13', 'compute', ['0000:0b:00.0', '0000:0c:00.0']), []);
  assert.deepEqual(on('7.2.13', 'sdma', partitions), []);
});
