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
  return lostQueues([one], (id) => (id === gpu.gpu_id ? gpu : undefined), kernel);
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
  const [reason] = lostQueues([queue('compute', 2048)], () => undefined, '7.3.4');
  assert.equal(reason, 'queue 3 is on GPU 51966, which the topology of this host does not have');
});
