import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasFewObjects, kfdObjectsOf } from '../../src/gpu/kfd-objects.js';
import { randomFrom } from './random.js';
import { type StateParts, stateBytes } from './state-builder.js';

const parts: StateParts = {
  devices: 2,
  ids: [
    [6699, 51966],
    [6700, 47806],
  ],
  bos: [
    { flags: 0x80000001, size: 4096 },
    { flags: 1, size: 8192 },
    { flags: 2, size: 100 },
    { flags: 4, size: 7 },
    { flags: 1 << 20, size: 1 },
  ],
  vmas: 3,
  queues: [
    {
      id: 1,
      gpuId: 6699,
      type: 0,
      ringBytes: 4096,
      priority: 7,
      mqd: 2048,
      controlStack: 512,
      saveArea: 0x7000_1000,
    },
    {
      id: 2,
      gpuId: 6700,
      type: 4,
      ringBytes: 2 ** 20,
      priority: 15,
      sdmaId: 5,
      mqd: 512,
      controlStack: 0,
    },
    { id: 3, gpuId: 6700, type: 2, ringBytes: 0, priority: 0, mqd: 8, controlStack: 8 },
    {
      id: 4,
      gpuId: 6700,
      type: 3,
      ringBytes: 1,
      priority: 0,
      sdmaId: 2,
      mqd: 512,
      controlStack: 0,
    },
  ],
  events: [
    { autoReset: true, isSet: false },
    { autoReset: false, isSet: true },
  ],
  ranges: [{ pages: 16 }],
};

const saved = (mqdBytes: number) => ({
  mqdBytes,
  areaInSvmRange: false,
  stoppedWithoutStack: false,
});

test('queues, events, ranges and all BOs are told', () => {
  assert.deepEqual(kfdObjectsOf(stateBytes(parts)), {
    devices: new Map([
      [6699, 51966],
      [6700, 47806],
    ]),
    bos: {
      vram: { count: 2, bytes: 12288 },
      gtt: { count: 1, bytes: 100 },
      userptr: { count: 1, bytes: 7 },
    },
    queues: [
      { id: 1, gpuId: 6699, kind: 'compute', ringBytes: 4096, priority: 7, saved: saved(2048) },
      {
        id: 2,
        gpuId: 6700,
        kind: 'sdma',
        ringBytes: 2 ** 20,
        priority: 15,
        slot: { link: 'xgmi', id: 5 },
        saved: saved(512),
      },
      { id: 3, gpuId: 6700, kind: 'other', ringBytes: 0, priority: 0, saved: saved(8) },
      {
        id: 4,
        gpuId: 6700,
        kind: 'sdma',
        ringBytes: 1,
        priority: 0,
        slot: { link: 'xgmi', id: 2 },
        saved: saved(512),
      },
    ],
    events: { count: 2, set: 1, autoReset: 1 },
    svmRanges: { count: 1, bytes: 65536 },
  });
  assert.deepEqual(
    kfdObjectsOf(stateBytes({ devices: 1, bos: [], vmas: 0, queues: [], events: [], ranges: [] })),
    {
      devices: new Map([[0, 0]]),
      bos: {},
      queues: [],
      events: { count: 0, set: 0, autoReset: 0 },
      svmRanges: { count: 0, bytes: 0 },
    },
  );
});

test('another layout is not guessed at', () => {
  const state = stateBytes(parts);
  for (const length of [0, 7, 127, 128, 200, state.length - 9]) {
    assert.equal(kfdObjectsOf(state.subarray(0, length)), undefined, `${length}`);
  }
  const bent = (at: number, value: number) => {
    const copy = Buffer.from(state);
    copy.writeUInt32LE(value, at);
    return kfdObjectsOf(copy);
  };
  assert.equal(bent(0, 0), undefined);
  assert.equal(bent(48, 5), undefined, 'fewer objects than bytes');
  assert.equal(bent(48, 0xffffffff), undefined, 'more objects than bytes');
  for (const count of [52, 56, 60, 64, 68]) assert.equal(bent(count, 0xffffffff), undefined);
});

test('whatever the bytes, the answer is a report or none', () => {
  const random = randomFrom(4242);
  const state = stateBytes(parts);
  let told = 0;
  for (let round = 0; round < 5000; round++) {
    const bytes = Buffer.from(state);
    for (let change = 1 + random(4); change > 0; change--) {
      // The counts and the private data are where it is decided what is read.
      const at = random(3) === 0 ? 44 + random(40) : random(bytes.length);
      bytes[at] = random(256);
    }
    if (kfdObjectsOf(bytes) !== undefined) told += 1;
  }
  assert.ok(told > 500 && told < 4900, `${told} of 5000`);
});

test('a save area in an SVM range is told, and a stopped dispatch without its control stack', () => {
  const [queue] = parts.queues;
  const told = (over: Partial<StateParts['queues'][number]>, first: number, pages: number) => {
    const one = { ...queue, ...over } as StateParts['queues'][number];
    const state = stateBytes({ ...parts, queues: [one], ranges: [{ first, pages }] });
    const { areaInSvmRange, stoppedWithoutStack } = kfdObjectsOf(state)?.queues[0]?.saved ?? {};
    return [areaInSvmRange, stoppedWithoutStack];
  };
  const saveArea = 0x7000_1000;
  assert.deepEqual(told({ saveArea }, 0x70001, 1), [true, false]);
  assert.deepEqual(told({ saveArea }, 0x70000, 1), [false, false]);
  assert.deepEqual(told({ saveArea }, 0x70002, 8), [false, false]);
  const stack = [8128, 8192] as const;
  assert.deepEqual(told({ stack, controlStack: 0 }, 0, 1), [false, true]);
  assert.deepEqual(told({ stack, controlStack: 8192 }, 0, 1), [false, false]);
  assert.deepEqual(told({ stack: [8192, 8192], controlStack: 0 }, 0, 1), [false, false]);
});

test('states of more devices or objects than any process has are not looked into for several', () => {
  const head = (devices: number, objects: number) => {
    const bytes = Buffer.alloc(128);
    bytes.writeUInt32LE(devices, 52);
    bytes.writeUInt32LE(objects, 48);
    return bytes;
  };
  assert.ok(hasFewObjects(head(1024, 65_536)));
  assert.ok(!hasFewObjects(head(1025, 1)));
  assert.ok(!hasFewObjects(head(1, 65_537)));
});
