/** Places of SDMA queues: who has which, which an image needs, and what follows. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { placeAsIs, placeOnHost } from '../../src/gpu/compare.js';
import { readHost } from '../../src/gpu/host.js';
import { kfdObjectsOf } from '../../src/gpu/kfd-objects.js';
import { named, type SdmaSlot, slotOf } from '../../src/gpu/sdma-slot.js';
import { wantsOf } from '../../src/gpu/sdma-wants.js';
import { parseMqds } from '../../src/gpu/taken-slots.js';
import { type Bend, hostWith } from './host-builder.js';
import { sampleManifest } from './manifest-sample.js';
import { computeQueue, hostWithQueues, mqd, processLine, sdmaQueue } from './mqds-text.js';
import { stateBytes } from './state-builder.js';
import { bentHost } from './sysfs-tree.js';

const pcie = (id: number): SdmaSlot => ({ link: 'pcie', id });
const xgmi = (id: number): SdmaSlot => ({ link: 'xgmi', id });

test('engine and queue of an MQD are a place, apart for each link', () => {
  const engines = { pcie: 2, xgmi: 3 };
  assert.deepEqual(slotOf(1, 0, engines), pcie(1));
  assert.deepEqual(slotOf(0, 3, engines), pcie(6));
  assert.deepEqual(slotOf(2, 0, engines), xgmi(0));
  assert.deepEqual(slotOf(4, 2, engines), xgmi(8));
  assert.equal(slotOf(5, 0, engines), undefined);
  assert.equal(slotOf(1, 64, engines), undefined);
  assert.equal(named([xgmi(3), pcie(7), pcie(0)]), 'SDMA queues 0, 7 and XGMI SDMA queue 3');
});

test('the driver’s file names engine and queue of each SDMA queue, of gfx9 and of gfx10', () => {
  const text =
    processLine(71) +
    computeQueue(51966) +
    sdmaQueue(51966, 1, 4) +
    sdmaQueue(47806, 0, 0, 130) +
    processLine(72) +
    // Processes may have several contexts, and none of them queues.
    processLine(72) +
    sdmaQueue(51966, 3, 2) +
    computeQueue(51966);
  assert.deepEqual(parseMqds(text), [
    { pid: 71, gpuId: 51966, engine: 1, queue: 4 },
    { pid: 71, gpuId: 47806, engine: 0, queue: 0 },
    { pid: 72, gpuId: 51966, engine: 3, queue: 2 },
  ]);
});

test('what is in another form is left out, and the next queue is read', () => {
  const head = '  SDMA queue on device cafe\n';
  const odd = [
    mqd(126, [1, 1]),
    mqd(128, [1, 1]) + mqd(128, [1, 2]), // several MQDs
    mqd(128, [1, 1]).replace('00000020', '00000040'), // a gap
    mqd(128, [1, 1]).replace('00000abc', '0000xabc'),
    '',
  ];
  for (const rows of odd) {
    const text = processLine(7) + head + rows + sdmaQueue(0xcafe, 0, 1);
    assert.deepEqual(parseMqds(text), [{ pid: 7, gpuId: 0xcafe, engine: 0, queue: 1 }], rows);
  }
  assert.deepEqual(parseMqds(sdmaQueue(0xcafe, 0, 1)), [], 'of no process');
});

test('a host knows the places of its users, unless the driver’s file is missing or unsafe to read', async (t) => {
  const known = hostWithQueues(71, 51966, [
    [1, 0],
    [4, 1],
  ]);
  const { 'sys/kernel/debug/kfd/mqds': _, ...withoutFile } = known;
  const users = async (bend: Record<string, string>, sdmaSlots = true, files = known) => {
    const root = await bentHost(t, 'two-gpus', { ...files, ...bend });
    return (await readHost({ root, sdmaSlots })).gpus.map(({ sdmaUsers }) => sdmaUsers);
  };
  const slots = [pcie(1), xgmi(5)];
  assert.deepEqual(await users({}), [[{ pid: 71, queues: 2, slots }], []]);
  const unknown = [[{ pid: 71, queues: 2 }], []];
  assert.deepEqual(await users({}, true, withoutFile), unknown);
  assert.deepEqual(await users({}, false), unknown, 'nobody asks for it');
  const node = 'sys/class/kfd/kfd/topology/nodes/2/properties';
  const dies = 'num_xcc 8\ngfx_target_version 90402\ndrm_render_minor 129\n';
  assert.deepEqual((await users({ [node]: dies }))[0], unknown[0], 'several dies');
});

/** The places that the process of the sample manifest needs, by type and `sdma_id`. */
function wants(queues: readonly (readonly [type: number, sdmaId: number])[], sdmaGpus?: number[]) {
  const manifest = sampleManifest();
  if (sdmaGpus) Object.assign(manifest.processes[0] as object, { sdma_gpus: sdmaGpus });
  const state = stateBytes({
    devices: 2,
    ids: [
      [7, 51966],
      [8, 47806],
    ],
    bos: [],
    vmas: 0,
    queues: queues.map(([type, sdmaId], id) => ({
      ...{ id, gpuId: 7, type, sdmaId, ringBytes: 4096, priority: 7, mqd: 512, controlStack: 0 },
    })),
    events: [],
    ranges: [],
  });
  return wantsOf(manifest, () => kfdObjectsOf(state));
}

test('an image needs the places of its state, by the recorded GPU', () => {
  const found = wants([
    [1, 3],
    [0, 9],
    [4, 2],
    [1, 0],
  ]);
  assert.deepEqual(found, new Map([[0, [pcie(3), xgmi(2), pcie(0)]]]));
  assert.deepEqual(wants([[0, 9]]), new Map());
  const manifest = sampleManifest();
  assert.equal(
    wantsOf(manifest, () => undefined),
    undefined,
  );
  Object.assign(manifest.processes[0] as object, { sdma_gpus: [] });
  assert.deepEqual(
    wantsOf(manifest, () => undefined),
    new Map(),
  );
});

const user = (slots?: SdmaSlot[], queues = 1) => ({ pid: 71, queues, ...(slots && { slots }) });

test('a place that another process has is a reason against the GPU, and another GPU is taken', () => {
  const needed = new Map([[0, [pcie(0), pcie(1)]]]);
  const busy = { render_minor: 128, sdma: [user([pcie(1), xgmi(0)], 2)] };
  const manifest = sampleManifest();
  const nodes = (...gpus: Bend[]) => {
    const { pairs, mismatches } = placeOnHost(manifest, hostWith(...gpus), {}, needed);
    return [pairs.map(({ present }) => present.record.render_minor), mismatches.length];
  };
  // The other recorded GPU needs no places, and so takes the busy one.
  assert.deepEqual(nodes(busy, { render_minor: 129 }), [[129, 128], 0]);
  assert.deepEqual(nodes(busy, { render_minor: 129 }, {}), [[142, 129], 0]);
  const asIs = placeAsIs(
    manifest,
    hostWith(busy, { render_minor: 129, sdma: busy.sdma }),
    {},
    needed,
  );
  assert.deepEqual(
    asIs.mismatches.map(({ code, message, hint }) => [code, message, hint]),
    [
      [
        'E_SDMA_SLOT',
        'gpu 0 (renderD128): pid 71 has SDMA queue 1 of gpu 1000 here, and the image needs the same',
        'stop this process, or choose another GPU with gpu_map',
      ],
    ],
  );
});

test('other places are no reason and no risk; places that are not known are a risk', () => {
  const needed = new Map([[0, [pcie(0)]]]);
  const placed = (sdma: ReturnType<typeof user>, known: typeof needed | undefined = needed) => {
    const host = hostWith({ render_minor: 128, sdma: [sdma] }, { render_minor: 129 }, {});
    const { pairs, mismatches, risks } = placeOnHost(sampleManifest(), host, {}, known);
    assert.deepEqual(mismatches, []);
    return [pairs[0]?.present.record.render_minor, risks.length];
  };
  assert.deepEqual(placed(user([pcie(1)])), [128, 0]);
  assert.deepEqual(placed(user([xgmi(0)])), [128, 0]);
  // Of a GPU that is not avoided there would be one.
  assert.deepEqual(placed(user()), [142, 0]);
  assert.deepEqual(placed(user([pcie(1)], 2)), [142, 0]);
  const only = hostWith({ render_minor: 128, sdma: [user([pcie(1)], 2)] }, { render_minor: 129 });
  assert.match(
    placeOnHost(sampleManifest(), only, {}, needed).risks[0]?.message ?? '',
    /pid 71 has 2/,
  );
  assert.deepEqual(placeOnHost(sampleManifest(), only).risks.length, 1);
});
