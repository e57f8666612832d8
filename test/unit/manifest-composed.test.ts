/** What the manifest of a checkpoint says of parents, shares, card nodes and the reasons of engines. */

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { readHost } from '../../src/gpu/host.js';
import { encodeManifest } from '../../src/manifest/codec.js';
import type { TransferResult } from '../../src/native.js';
import { ParentIndexes } from '../../src/session/contents/parent.js';
import { composeManifest } from '../../src/session/dump/compose-manifest.js';
import { planDrain } from '../../src/session/dump/plan-drain.js';
import { dumped, kfdVersion, manifestFacts } from './dumped.js';
import { fixtures } from './paths.js';

const host = await readHost({ root: join(fixtures, 'sysfs/two-gpus'), kfdVersion });
const parent = new ParentIndexes('/parent', 'base.tar', []);
const stage = { bytes: 0, busyUs: 0, waitUs: 0 };
const stages = { file: stage, code: stage, hash: stage, copy: stage, work: stage };
const result = {
  ...{ fileBytes: 100, root: 'ab'.repeat(16), bytes: 1, wallUs: 1 },
  workers: 1,
  stages,
};
const drainedResult = { ...result, turnWaitUs: 0, slowest: 'copy', engine: 'cpu' };

/** A checkpoint of two processes: `parents` are the roots that their pages files refer to. */
function facts(...parents: readonly (string | undefined)[]) {
  const processes = [dumped(), { ...dumped(), ordinal: 1, pid: 4712 }];
  // BO 0 of process 1 is BO 2 of process 0.
  const shares = [{ process: 1, bo_index: 0, owner: { process: 0, bo_index: 2 } }];
  const drained = planDrain(host, processes, shares).map((part, i) => ({
    ...part,
    result: { ...drainedResult, parent: parents[i] } as unknown as TransferResult,
    ...(i === 0 && { engineReason: 'x'.repeat(2000) }),
  }));
  return { ...manifestFacts(host), processes, shares, drained };
}

const root = 'cd'.repeat(16);

test('a parent is named with the files that refer to it, and is a feature that readers need', () => {
  const manifest = composeManifest({ ...facts(undefined, root), parent });
  assert.doesNotThrow(() => encodeManifest(manifest));
  const [, refers] = facts().drained;
  assert.deepEqual(manifest.parent, {
    archive: 'base.tar',
    files: [{ name: refers?.name, root }],
  });
  assert.deepEqual(manifest.features, { required: ['parent'], optional: [] });
  for (const without of [composeManifest({ ...facts(), parent }), composeManifest(facts(root))]) {
    assert.equal(without.parent, null);
    assert.deepEqual(without.features, { required: [], optional: [] });
  }
});

test('detached contents are a feature that readers need, where there are contents', () => {
  const required = (more: object) => composeManifest({ ...facts(root), ...more }).features.required;
  assert.deepEqual(required({ detached: true }), ['detached']);
  assert.deepEqual(required({ detached: true, parent }), ['detached', 'parent']);
  const drained: never[] = [];
  assert.deepEqual(required({ detached: true, drained, shares: [] }), []);
});

test('a share names the buffer of its owner; bytes count where they are stored', () => {
  const manifest = composeManifest(facts());
  const owner = manifest.buffers.find(({ process, bo_index }) => process === 0 && bo_index === 2);
  assert.deepEqual(manifest.shares, [{ process: 1, bo_index: 0, buffer: owner?.id }]);
  assert.ok(!manifest.buffers.some(({ process, bo_index }) => process === 1 && bo_index === 0));
  assert.deepEqual(
    manifest.processes.map(({ vram_bytes, gtt_bytes }) => [vram_bytes, gtt_bytes]),
    [
      [24576, 4096],
      [16384, 4096],
    ],
  );
  const lost = {
    ...facts(),
    shares: [{ process: 1, bo_index: 0, owner: { process: 7, bo_index: 2 } }],
  };
  assert.throws(() => composeManifest(lost), {
    code: 'E_INTERNAL',
    message: 'manifest: a share without buffer',
  });
});

test('what there is none of is left out', () => {
  const manifest = composeManifest(manifestFacts(host));
  assert.deepEqual([manifest.shares, manifest.transfers], [undefined, undefined]);
  assert.deepEqual([manifest.buffers, manifest.files, manifest.parent], [[], [], null]);
  const { kfdVersion: _, ...unknown } = host;
  assert.throws(
    () => composeManifest({ ...manifestFacts(host), host: { ...unknown, kfdVersion: undefined } }),
    {
      code: 'E_NO_GPU',
    },
  );
  const { summary: __, ...bare } = dumped();
  assert.throws(() => composeManifest({ ...manifestFacts(host), processes: [bare] }), {
    code: 'E_INTERNAL',
    message: 'manifest: a process without state',
  });
});

test('the reason of an engine is as long as a reader takes it', () => {
  const [first, second] = composeManifest(facts()).transfers ?? [];
  assert.equal(first?.engine_reason, 'x'.repeat(1024));
  assert.ok(second !== undefined && !('engine_reason' in second));
});
