/** Buffers of a manifest beside those of pages files, and beside the BOs of a process. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type BoKind, boKinds } from '../../src/addon/images.js';
import {
  boFault,
  buffersOfBos,
  groupedBy,
  joined,
  tableFault,
} from '../../src/manifest/buffers.js';
import {
  pagesFileName,
  pagesPattern,
  renderStateFileName,
  renderStatePattern,
  stateFileName,
  statePattern,
} from '../../src/manifest/names.js';
import { sampleManifest } from './manifest-sample.js';

const { buffers } = sampleManifest();

type Bo = readonly [kind: BoKind, size: number];

function columns(...bos: readonly Bo[]) {
  return {
    sizes: Float64Array.from(bos, ([, size]) => size),
    kinds: Uint8Array.from(bos, ([kind]) => boKinds.indexOf(kind)),
  };
}

test('a name is made of ordinals, and has them in it', () => {
  for (const [process, gpu] of [
    [0, 0],
    [7, 10],
    [4095, 255],
  ] as const) {
    const [, ofProcess, ofGpu = ''] = pagesPattern.exec(pagesFileName(process, gpu)) ?? [];
    assert.deepEqual([Number(ofProcess), Number.parseInt(ofGpu, 16)], [process, gpu]);
    assert.equal(statePattern.exec(stateFileName(process))?.[1], String(process));
    assert.equal(renderStatePattern.exec(renderStateFileName(process))?.[1], String(process));
  }
});

test('buffers are grouped by their file, in their order', () => {
  const groups = groupedBy(buffers, ({ pages_file: file }) => file);
  const ids = [...groups].map(([file, ofFile]) => [file, ...ofFile.map(({ id }) => id)]);
  assert.deepEqual(ids, [
    ['amdgpu-pages-0-0000.img', 0, 1],
    ['amdgpu-pages-0-0001.img', 2],
  ]);
});

test('the BOs of render files follow those of KFD', () => {
  const parts = [columns(['vram', 4096], ['mmio', 1]), columns(), columns(['gtt', 8192])];
  assert.deepEqual(joined(parts), columns(['vram', 4096], ['mmio', 1], ['gtt', 8192]));
});

test('a pages file has the buffers of the manifest, with their sizes', () => {
  const fault = (ids: readonly number[], sizes: readonly number[]) =>
    tableFault(buffers.slice(0, 2), {
      bufferIds: Uint32Array.from(ids),
      bufferSizes: Float64Array.from(sizes),
    });
  assert.equal(fault([1, 0], [4096, 2097152]), undefined, 'in whatever order');
  assert.equal(fault([0], [2097152]), 'number of buffers is 1, the manifest says 2');
  assert.equal(fault([0, 1, 2], [1, 1, 1]), 'number of buffers is 3, the manifest says 2');
  assert.equal(fault([0, 2], [2097152, 4096]), 'buffer 2 is not in the manifest');
  const size = 'size of buffer 1 is 4095, the manifest says 4096';
  assert.equal(fault([0, 1], [2097152, 4095]), size);
});

test('each BO with contents has its buffer, its own or a shared one, and nothing else has', () => {
  const manifest = { ...sampleManifest(), shares: [{ process: 1, bo_index: 0, buffer: 2 }] };
  const byProcess = buffersOfBos(manifest);
  assert.deepEqual([...byProcess.keys()], [0, 1]);
  assert.deepEqual(
    [...(byProcess.get(0) ?? [])],
    [3, 4, 5].map((bo, at) => [bo, buffers[at]]),
  );
  assert.deepEqual([...(byProcess.get(1) ?? [])], [[0, buffers[2]]]);
  // A share of a buffer that there is not is found elsewhere.
  const lost = { ...sampleManifest(), shares: [{ process: 1, bo_index: 0, buffer: 9 }] };
  assert.deepEqual([...buffersOfBos(lost).keys()], [0]);

  const [first, second, third] = [
    ['vram', 2097152],
    ['gtt', 4096],
    ['vram', 1048576],
  ] as const;
  const others = [
    ['userptr', 4096],
    ['doorbell', 8192],
    ['mmio', 4096],
  ] as const;
  const fault = (...bos: readonly Bo[]) => boFault(columns(...bos), byProcess.get(0) ?? new Map());
  assert.equal(fault(...others, first, second, third), undefined);
  // A kind that nobody knows has no contents.
  const strange = columns(...others, first, second, third, ['vram', 1]);
  strange.kinds[6] = 99;
  assert.equal(boFault(strange, byProcess.get(0) ?? new Map()), undefined);
  const nothing = 'BO 6 has contents, the manifest has no buffer for it';
  assert.equal(fault(...others, first, second, third, ['gtt', 1]), nothing);
  assert.equal(
    fault(...others, first, ['vram', 4096], third),
    'BO 4 is vram of 4096 bytes, the manifest says gtt of 4096',
  );
  assert.equal(
    fault(...others, first, second, ['vram', 4096]),
    'BO 5 is vram of 4096 bytes, the manifest says vram of 1048576',
  );
  const fewer = 'BOs with contents are 2, the manifest says 3';
  assert.equal(fault(...others, first, second), fewer);
});
