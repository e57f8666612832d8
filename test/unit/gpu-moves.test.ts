/** Which GPU replaces which, when somebody has said so, and what moves. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { placeAsIs, placeOnHost } from '../../src/gpu/compare.js';
import { parseGpuMap } from '../../src/gpu/gpu-map.js';
import { pairGpus } from '../../src/gpu/pair.js';
import type { Manifest } from '../../src/manifest/schema.js';
import { chosen, hostWith } from './host-builder.js';
import { sampleManifest } from './manifest-sample.js';

test('overrides count more than scores; they name GPUs by node, address or id, and are checked', () => {
  const host = hostWith({ render_minor: 128 }, { render_minor: 129 }, {});
  const map = (text: string) => chosen(host, sampleManifest(), parseGpuMap(text));
  assert.deepEqual(map('renderD128=renderD129,renderD129=renderD128'), ['0>1', '1>0']);
  assert.deepEqual(map('0000:03:00.0=0000:82:00.0'), ['0>2', '1>1']);
  assert.deepEqual(map('47806=1002,51966=renderD129'), ['0>1', '1>2']);
  // A GPU that is promised is not given to another; entries for other images do not matter.
  assert.deepEqual(map('renderD128=renderD129'), ['0>1', '1>0']);
  assert.deepEqual(map('renderD150=renderD151'), ['0>0', '1>1']);

  const refused = (text: string, bent = host) =>
    pairGpus(sampleManifest(), bent, parseGpuMap(text)).mismatches;
  assert.match(refused('renderD128=renderD160')[0]?.message ?? '', /this host has no renderD160/);
  assert.match(
    refused('renderD128=renderD129,renderD129=renderD129')[0]?.message ?? '',
    /taken twice/,
  );
  assert.match(
    refused('renderD128=renderD129,51966=renderD128')[0]?.message ?? '',
    /two overrides name renderD128/,
  );
  const other = hostWith({ render_minor: 128 }, { render_minor: 129, simd_count: 1 });
  assert.deepEqual(
    refused('renderD128=renderD129', other).map(({ code, message }) => [code, message]),
    [['E_GPU_MISMATCH', 'gpu 0 (renderD128): simd_count was 416, is 1 here']].concat([]),
  );
});

test('what is no map is wrong usage', () => {
  for (const text of [
    '',
    'a=b',
    'renderD1',
    'renderD1=renderD2=renderD3',
    '1=2,1=3',
    '1=2,',
    '/dev=1',
  ]) {
    assert.throws(() => parseGpuMap(text), { code: 'E_USAGE' }, text);
  }
});

test('moves are told apart from reasons, and are reasons for an archive as it is', () => {
  const host = { ...hostWith({}, {}), kfdDevice: { major: 511, minor: 0 } };
  const { mismatches, moves } = placeOnHost(sampleManifest(), host);
  assert.deepEqual(mismatches, []);
  assert.deepEqual(
    moves.map(({ gpu, from, to }) => [gpu, from.major, from.minor, to.major, to.minor]),
    [
      [undefined, 234, 0, 511, 0],
      [0, 226, 128, 226, 140],
      [1, 226, 129, 226, 141],
    ],
  );
  for (const { code, message, hint } of placeAsIs(sampleManifest(), host).mismatches) {
    assert.equal(code, 'E_DEVICE_MOVED');
    assert.match(message, /is (234:0|226:12[89]) in the archive, and .* here$/);
    assert.match(hint, /kfd-checkpoint restore ARCHIVE/);
  }
});

test("an archive that was rewritten says where its GPUs go, and the host's map has no more say", () => {
  const host = hostWith({ render_minor: 129 }, { render_minor: 128 });
  const manifest: Manifest = sampleManifest();
  manifest.devices.assigned = [
    { gpu: 0, render_minor: 129 },
    { gpu: 1, render_minor: 128 },
  ];
  const map = parseGpuMap('renderD128=renderD128,renderD129=renderD129');
  const decided = placeAsIs(manifest, host, { gpu_map: map });
  assert.deepEqual(decided.mismatches, []);
  assert.deepEqual(
    decided.pairs.map(({ present }) => present.record.render_minor),
    [129, 128],
  );
  // Rewritten once more: the numbers it has now are those of the first rewriting.
  const again = placeOnHost(manifest, hostWith({ render_minor: 130 }, { render_minor: 131 }));
  assert.deepEqual(
    again.moves.map(({ from, to }) => [from.minor, to.minor]),
    [
      [129, 130],
      [128, 131],
    ],
  );
});
