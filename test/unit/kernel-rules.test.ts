import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type AnyQueue, lostQueues, nearestRead, rowsOf } from '../../src/gpu/kernel-rules.js';
import { kernelTable, readKernels } from '../../src/gpu/kernel-table.js';
import type { QueueKind, SavedQueue } from '../../src/gpu/kfd-objects.js';
import type { ManifestGpu } from '../../src/manifest/schema.js';
import { sampleManifest } from './manifest-sample.js';

const gpuId = 51966;

function running(kind: QueueKind): AnyQueue {
  return { id: 3, gpuId, kind };
}

function saved(kind: QueueKind, mqdBytes: number, shows: Partial<SavedQueue> = {}): AnyQueue {
  const nothing = { areaInSvmRange: false, stoppedWithoutStack: false };
  return { ...running(kind), saved: { mqdBytes, ...nothing, ...shows } };
}

function gpusAt(gfx: number, dies: number, locations: readonly string[]): ManifestGpu[] {
  const [sample] = sampleManifest().gpus;
  return locations.map((location, index) => ({
    ...(sample as ManifestGpu),
    gpu_id: gpuId + index,
    gfx_target_version: gfx,
    num_xcc: dies,
    location,
  }));
}

interface On {
  readonly gfx?: number;
  readonly dies?: number;
  readonly kernel?: string;
  readonly locations?: readonly string[];
  readonly takes?: boolean;
  readonly cwsr?: number;
  readonly driver?: string;
}

function lost(queue: AnyQueue, on: On = {}): string[] {
  const gpus = gpusAt(on.gfx ?? 90010, on.dies ?? 1, on.locations ?? ['0000:0b:00.0']);
  return lostQueues([queue], (id) => gpus.find((gpu) => gpu.gpu_id === id), {
    kernelRelease: on.kernel ?? '7.3.4',
    driver: on.driver,
    gpus,
    parameters: new Map(on.cwsr === undefined ? [] : [['cwsr_enable', on.cwsr]]),
    takes: () => on.takes === true,
  });
}

test('queues that come back are not refused', () => {
  assert.deepEqual(lost(saved('compute', 2048)), []);
  assert.deepEqual(lost(saved('sdma', 512)), []);
  assert.deepEqual(lost(saved('compute', 2048), { gfx: 100300 }), []);
  assert.deepEqual(lost(saved('compute', 2048), { gfx: 90402 }), []);
  assert.deepEqual(lost(saved('sdma', 512), { gfx: 90402, dies: 8 }), []);
  assert.deepEqual(lost(running('compute'), { kernel: '6.12.118+deb13-amd64', cwsr: 1 }), []);
});

test('a compute queue of which one of several dies is saved is refused', () => {
  const reason =
    'compute queue 3 on a gfx942 with 8 compute dies: this kernel saves one of the compute dies, and the queue ' +
    'would never run again (instead: CPX mode)';
  const on = { gfx: 90402, dies: 8, kernel: '6.12.118' };
  assert.deepEqual(lost(saved('compute', 2048), on), [reason]);
  assert.deepEqual(lost(running('compute'), on), [reason]);
  assert.deepEqual(lost(running('sdma'), on), []);
  // Drivers of distributions differ within a release: what was saved decides.
  assert.deepEqual(lost(saved('compute', 2048), { ...on, kernel: '7.3.4' }), [reason]);
  assert.match(
    lost(saved('compute', 8 * 2048), on)[0] ?? '',
    /RESTORE takes the size of one alone/,
  );
});

test('a queue of which all dies are saved is refused, unless RESTORE takes it', () => {
  const bytes = { compute: 2048, sdma: 512 } as const;
  const on = { gfx: 90402, dies: 8 };
  for (const kind of ['compute', 'sdma'] as const) {
    for (const queue of [saved(kind, 8 * bytes[kind]), running(kind)]) {
      const [reason = '', ...more] = lost(queue, on);
      assert.match(reason, /^(compute|sdma) queue 3 .*: this kernel saves all compute dies, and/);
      assert.deepEqual(more, []);
      assert.deepEqual(lost(queue, { ...on, takes: true }), []);
    }
  }
});

test('how a driver that nobody has read saves queues on several dies, only a saved queue tells', () => {
  const dies = { gfx: 90402, dies: 8 };
  for (const on of [
    { ...dies, kernel: '6.8.0-45-generic' },
    { ...dies, kernel: '6.12.118', driver: '6.16.13' },
  ]) {
    assert.deepEqual(lost(running('compute'), on), []);
    assert.equal(lost(saved('compute', 2048), on).length, 1);
    assert.equal(lost(saved('compute', 8 * 2048), on).length, 1);
    assert.deepEqual(lost(saved('compute', 8 * 2048), { ...on, takes: true }), []);
  }
});

test('every queue of gfx11 and later is refused', () => {
  for (const [gfx, name] of [
    [110000, 'gfx1100'],
    [120001, 'gfx1201'],
  ] as const) {
    for (const queue of [saved('compute', 2048), running('sdma')]) {
      assert.match(
        lost(queue, { gfx })[0] ?? '',
        new RegExp(`queue 3 on a ${name}: no kernel can bring back queues of gfx11 and later`),
      );
    }
  }
});

test('compute queues of gfx10 are refused where RESTORE wants control stacks', () => {
  const refusedOn = (kernel: string) =>
    lost(running('compute'), { gfx: 100300, kernel }).length > 0;
  assert.equal(refusedOn('6.12.118+deb13-amd64'), true);
  assert.equal(refusedOn('6.12.108'), true);
  assert.equal(refusedOn('6.12.107-1'), false);
  assert.equal(refusedOn('6.13'), false);
  assert.equal(refusedOn('7.3.4+deb13-amd64'), false);
  assert.deepEqual(lost(saved('sdma', 520), { gfx: 100300, kernel: '6.12.117' }), []);
});

test('a compute queue with its save area in an SVM range is refused where RESTORE wants it first', () => {
  const queue = saved('compute', 2048, { areaInSvmRange: true });
  const refusedOn = (kernel: string) => lost(queue, { kernel }).length > 0;
  assert.equal(refusedOn('6.12.107'), false);
  assert.equal(refusedOn('6.12.111'), true);
  assert.equal(refusedOn('6.12.118'), true);
  assert.equal(refusedOn('7.3.4'), false);
  assert.deepEqual(lost(running('compute'), { kernel: '6.12.118' }), []);
});

test('a dispatch that was stopped is refused when its control stack is not in the blob', () => {
  const queue = saved('compute', 2048, { stoppedWithoutStack: true });
  assert.match(lost(queue)[0] ?? '', /a dispatch was stopped and its control stack was not saved/);
  assert.notDeepEqual(lost(queue, { kernel: '6.18.50' }), [], 'the blob decides');
  assert.deepEqual(lost(queue, { gfx: 100300 }), [], 'its control stack is in the save area');
});

test('compute queues of gfx9 are refused where they come back without room for the control stack', () => {
  assert.match(lost(running('compute'), { kernel: '7.2.13' })[0] ?? '', /makes no room/);
  assert.deepEqual(lost(running('sdma'), { kernel: '7.2.13' }), []);
  assert.deepEqual(lost(running('compute'), { kernel: '7.2.13', gfx: 100300 }), []);
});

test('compute queues of a partition are refused where RESTORE overruns the memory of the queue', () => {
  const locations = ['0000:0b:00.0', '0000:0b:00.1'];
  const refusedOn = (kernel: string, dies = 1) =>
    lost(running('compute'), { gfx: 90402, dies, kernel, locations, takes: true }).length > 0;
  assert.equal(refusedOn('6.12.117+deb13-amd64'), false);
  assert.equal(refusedOn('6.16.3'), false);
  assert.equal(refusedOn('6.16.4'), true);
  assert.equal(refusedOn('6.16.4', 2), true);
  assert.equal(refusedOn('6.17-rc1'), true);
  assert.equal(refusedOn('7.3.4+deb13-amd64'), false);
  const on = { gfx: 90402, kernel: '6.17' };
  assert.deepEqual(
    lost(running('compute'), { ...on, locations: ['0000:0b:00.0', '0000:0c:00.0'] }),
    [],
  );
  assert.deepEqual(lost(running('sdma'), { ...on, locations }), []);
});

test('every queue is refused without CWSR, and on kernels whose layout is not known', () => {
  for (const kind of ['compute', 'sdma'] as const) {
    assert.match(lost(running(kind), { cwsr: 0 })[0] ?? '', /amdgpu\.cwsr_enable=0/);
    assert.match(lost(running(kind), { kernel: '6.1.192' })[0] ?? '', /a layout that is not known/);
  }
});

test('a layout that could be read is known, whatever the kernel', () => {
  assert.deepEqual(lost(saved('compute', 2048), { kernel: '6.1.192' }), []);
  assert.deepEqual(lost(running('compute'), { kernel: '5.14.0-503.el9' }), [], 'it may be newer');
});

test('a queue on a GPU that is not known is refused', () => {
  const host = { kernelRelease: '7.3.4', gpus: [] };
  const [reason] = lostQueues([running('compute')], () => undefined, host);
  assert.equal(
    reason,
    'compute queue 3 on GPU 51966, which the topology of this host does not have',
  );
});

test('queues with one reason are named together', () => {
  const [gpu] = gpusAt(110000, 1, ['0000:0b:00.0']) as [ManifestGpu];
  const queues = [1, 2].map((id) => ({ ...running('sdma'), id }));
  const reasons = lostQueues(queues, () => gpu, { kernelRelease: '7.3.4', gpus: [gpu] });
  assert.equal(reasons.length, 1);
  assert.match(reasons[0] ?? '', /^sdma queues 1, 2 on a gfx1100: no kernel/);
});

test('rows are about GPUs and kernels', () => {
  const [first] = gpusAt(90402, 1, ['0000:0b:00.0', '0000:0b:00.1']);
  const of = (kernelRelease: string) =>
    rowsOf(first as ManifestGpu, {
      kernelRelease,
      gpus: gpusAt(90402, 1, ['0000:0b:00.0', '0000:0b:00.1']),
    }).map(({ id }) => id);
  assert.deepEqual(of('6.12.118'), ['svm_save_area', 'partition_place']);
  assert.deepEqual(of('7.3.4'), ['stack_lost', 'partition_place']);
});

test('a kernel between two that were read is as they are; others are the nearest one with a doubt', () => {
  assert.deepEqual(nearestRead('6.12.115+deb13'), { kernel: '6.12.113', isRead: true });
  assert.deepEqual(nearestRead('7.3.4'), { kernel: '7.3.4', isRead: true });
  assert.deepEqual(nearestRead('7.3.5'), { kernel: '7.3.4', isRead: false });
  assert.deepEqual(nearestRead('8.0'), { kernel: '7.3.4', isRead: false });
  assert.deepEqual(nearestRead('6.8.0-45-generic'), { kernel: '6.12.107', isRead: false });
});

test('each row has a source in a version that was read, and an id of its own', () => {
  const ids = kernelTable.map(({ id }) => id);
  assert.equal(new Set(ids).size, ids.length);
  for (const { id, sources, kernels } of kernelTable) {
    assert.ok(kernels.length > 0, id);
    assert.ok(sources.length > 0, id);
    for (const source of sources) {
      const [, version = ''] = /^amd(?:gpu|kfd)\/[\w.]+:\w+@([\d.]+)$/.exec(source) ?? [];
      assert.ok(readKernels.includes(version), source);
    }
  }
});
