import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readHost } from '../../src/gpu/host.js';
import type { SharedBo } from '../../src/session/buffers/places.js';
import { refuseUnrestorable } from '../../src/session/dump/unrestorable.js';
import { dumped, kfdVersion } from './dumped.js';
import { bentHost } from './sysfs-tree.js';

const readable = (): void => undefined;
const unreadable = (): never => {
  const reason = 'KFD state: its private data has a layout that is not known here (size)';
  throw Object.assign(new Error(reason), { code: 'KFD_UNSUPPORTED' });
};

const share = (process: number, index: number, owner: number, ofOwner: number): SharedBo => ({
  process,
  bo_index: index,
  owner: { process: owner, bo_index: ofOwner },
});

test('a process whose shared buffers could not be exchanged is refused while it can go on', async (t) => {
  const host = await readHost({ root: await bentHost(t, 'two-gpus', {}), kfdVersion });
  const processes = [
    { ...dumped({ numObjects: 0 }), kfdBos: 3 },
    { ...dumped({ numObjects: 0 }), ordinal: 1, pid: 4712, comm: 'peer', kfdBos: 3 },
  ];
  const judged = (shares: readonly SharedBo[], check: (state: Buffer) => void) => () =>
    refuseUnrestorable(processes, shares, host, check);
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

test('queues and events in a layout that is not known are refused: what becomes of them cannot be told', async (t) => {
  const host = await readHost({ root: await bentHost(t, 'two-gpus', {}), kfdVersion });
  assert.throws(() => refuseUnrestorable([dumped()], [], host, readable), {
    code: 'E_UNSUPPORTED_STATE',
    message: 'pid 4711 (worker): its KFD state has a layout that is not known here',
  });
});
