import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { readHost } from '../../src/gpu/host.js';
import type { SharedBo } from '../../src/session/buffers/places.js';
import { KernelLimits } from '../../src/session/dump/kernel-limits.js';
import { refuseUnrestorable } from '../../src/session/dump/unrestorable.js';
import { dumped, kfdVersion } from './dumped.js';
import { fixtures } from './paths.js';
import { stateBytes } from './state-builder.js';
import { bentHost } from './sysfs-tree.js';

const readable = (): void => undefined;
const restoreTakes = () => assert.fail('no queue is on several dies');
const unreadable = (): never => {
  const reason = 'KFD state: its private data has a layout that is not known here (size)';
  throw Object.assign(new Error(reason), { code: 'KFD_UNSUPPORTED' });
};

const share = (process: number, index: number, owner: number, ofOwner: number): SharedBo => ({
  process,
  bo_index: index,
  owner: { process: owner, bo_index: ofOwner },
});

test('a process whose shared buffers could not be exchanged is refused while it can continue', async (t) => {
  const host = await readHost({ root: await bentHost(t, 'two-gpus', {}), kfdVersion });
  const limits = await KernelLimits.of(host, { root: '/', restoreTakes });
  const processes = [
    { ...dumped({ numObjects: 0 }), kfdBos: 3 },
    { ...dumped({ numObjects: 0 }), ordinal: 1, pid: 4712, comm: 'peer', kfdBos: 3 },
  ];
  const judged = (shares: readonly SharedBo[], check: (state: Buffer) => void) => () =>
    refuseUnrestorable(processes, shares, limits, check);
  assert.doesNotThrow(judged([], unreadable), 'nothing is exchanged');
  assert.doesNotThrow(judged([share(1, 0, 0, 0)], readable));
  // The owner keeps its BO; one of a render file is not in KFD's private data.
  assert.doesNotThrow(judged([share(1, 3, 0, 0)], unreadable));
  assert.throws(judged([share(1, 0, 0, 0)], unreadable), {
    code: 'E_UNSUPPORTED_STATE',
    message:
      /^pid 4712 \(peer\): its shared GPU buffers cannot be restored: KFD state: .*not known here \(size\)$/,
  });
  // With every other reason.
  assert.throws(judged([share(1, 2, 0, 3), share(0, 2, 1, 3)], unreadable), {
    message: /^pid \d+ .*such a circle cannot be restored; pid 4711 .*; pid 4712 /,
  });
});

test('processes wait for each other by BOs of render files alone', async (t) => {
  const host = await readHost({ root: await bentHost(t, 'two-gpus', {}), kfdVersion });
  const limits = await KernelLimits.of(host, { root: '/', restoreTakes });
  const { state, summary, ...onRenderNodes } = dumped();
  const processes = [
    { ...dumped({ numObjects: 0 }), kfdBos: 3 },
    { ...onRenderNodes, ordinal: 1, pid: 4712, comm: 'peer' },
  ];
  const judged = (...shares: readonly SharedBo[]) => {
    return () => refuseUnrestorable(processes, shares, limits, readable);
  };
  assert.doesNotThrow(judged(share(1, 0, 0, 1), share(0, 2, 1, 1)), 'one has a BO of KFD');
  assert.throws(judged(share(1, 0, 0, 3), share(0, 2, 1, 1)), {
    message: /^pid 471[12] \(\w+\), pid 471[12] \(\w+\): .*such a circle cannot be restored$/,
  });
});

test('queues and events in a layout that is not known are refused: what becomes of them cannot be told', async (t) => {
  const host = await readHost({ root: await bentHost(t, 'two-gpus', {}), kfdVersion });
  const limits = await KernelLimits.of(host, { root: '/', restoreTakes });
  assert.throws(() => refuseUnrestorable([dumped()], [], limits, readable), {
    code: 'E_UNSUPPORTED_STATE',
    message: 'pid 4711 (worker): its KFD state has a layout that is not known here',
  });
});

test('queues of a state file are judged by the GPU that the process knows under another id', async (t) => {
  const queue = { type: 0, ringBytes: 4096, priority: 7, mqd: 2048, controlStack: 8192 };
  const state = stateBytes({
    devices: 2,
    ids: [[0x5678, 47806]],
    bos: [],
    vmas: 0,
    queues: [{ ...queue, id: 5, gpuId: 0x5678 }],
    events: [],
    ranges: [],
  });
  const processes = [{ ...dumped({ bos: [] }), state }];
  // The other GPU is of another kind.
  const other = 'sys/class/kfd/kfd/topology/nodes/1/properties';
  const properties = await readFile(join(fixtures, 'sysfs/two-gpus', other), 'utf8');
  const bent = properties.replace(/^gfx_target_version .*$/m, 'gfx_target_version 110000');
  const judged = async (kernel: string) => {
    const release = { 'proc/sys/kernel/osrelease': kernel, [other]: bent };
    const root = await bentHost(t, 'two-gpus', release);
    const limits = await KernelLimits.of(await readHost({ root, kfdVersion }), {
      root,
      restoreTakes,
    });
    return () => refuseUnrestorable(processes, [], limits, readable);
  };
  assert.doesNotThrow(await judged('6.12.118'));
  assert.throws(await judged('7.2.13'), {
    code: 'E_UNSUPPORTED_STATE',
    message: /^pid 4711 \(worker\): compute queue 5 on a gfx90a: RESTORE of this kernel makes no/,
  });
});
