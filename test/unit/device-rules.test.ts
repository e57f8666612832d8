/** Which rules and devices of the container engine's documents follow a move, and which stay as they are. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { rewriteConfig, rewriteSpec } from '../../src/archive/device-rules.js';
import { documentChanges, move } from './device-moves.js';

const kfd = move(undefined, [244, 0], [511, 0]);
const render = move(0, [226, 128], [226, 130]);
const far = move(1, [226, 129], [240, 0]);

/** The members of a spec after the moves. */
function moved(linux: object, ...moves: readonly (typeof kfd)[]): unknown {
  return JSON.parse(rewriteSpec(JSON.stringify({ linux }), documentChanges(moves))).linux;
}
const device = (one: object, ...moves: readonly (typeof kfd)[]) =>
  (moved({ devices: [one] }, ...moves) as { devices: unknown[] }).devices[0];
const rule = (one: object, ...moves: readonly (typeof kfd)[]) =>
  (moved({ resources: { devices: [one] } }, ...moves) as { resources: { devices: unknown[] } })
    .resources.devices[0];

test('a character device of either type gets the new number; nothing else does', () => {
  for (const place of [device, rule]) {
    for (const type of ['c', 'u']) {
      const one = { type, major: 226, minor: 128, x: 1 };
      assert.deepEqual(place(one, kfd, render), { ...one, minor: 130 });
    }
    for (const other of [
      { type: 'b', major: 226, minor: 128 },
      { type: 'p', major: 226, minor: 128 },
      { major: 226, minor: 128 },
      { type: 'c', major: 226, minor: 0 },
      { type: 'c', major: 244, minor: 128 },
    ]) {
      assert.deepEqual(place(other, kfd, render), other);
    }
  }
});

test('a rule for a whole major follows when all of it moves to one major', () => {
  for (const minor of [{}, { minor: null }, { minor: -1 }]) {
    for (const type of ['c', 'u']) {
      const all = { allow: true, type, major: 244, ...minor };
      assert.deepEqual(rule(all, kfd, render), { ...all, major: 511 });
      assert.deepEqual(rule({ ...all, major: 226 }, kfd, render), { ...all, major: 226 });
      // Its GPUs are under two majors now: no rule for one of them is right.
      for (const moves of [
        [render, far],
        [far, render],
      ]) {
        assert.deepEqual(rule({ ...all, major: 226 }, ...moves), { ...all, major: 226 });
      }
      assert.deepEqual(rule({ ...all, major: 226 }, kfd, far), { ...all, major: 240 });
      assert.deepEqual(rule({ ...all, major: 1 }, kfd), { ...all, major: 1 });
    }
    const blocks = { allow: true, type: 'b', major: 244, ...minor };
    assert.deepEqual(rule(blocks, kfd), blocks);
    const any = { allow: false, ...minor };
    assert.deepEqual(rule(any, kfd), any);
  }
  const other = { type: 'c', major: 244, minor: 7 };
  assert.deepEqual(rule(other, kfd), other);
  // A device has a number, no rule.
  const numberless = { type: 'c', major: 244 };
  assert.deepEqual(device(numberless, kfd), numberless);
});

test('a node is renamed only where its name is made of its number', () => {
  const at = (path?: string) => ({ ...(path && { path }), type: 'c', major: 226, minor: 128 });
  const to = (path?: string) => ({ ...at(path), minor: 130 });
  assert.deepEqual(device(at('/dev/dri/renderD128'), render), to('/dev/dri/renderD130'));
  for (const path of ['/dev/dri/renderD129', '/dev/gpu', undefined]) {
    assert.deepEqual(device(at(path), render), to(path));
  }
  const same = { path: '/dev/kfd', type: 'c', major: 244, minor: 0 };
  assert.deepEqual(device(same, kfd), { ...same, major: 511 });
  const block = { path: '/dev/dri/renderD128', type: 'b', major: 226, minor: 128 };
  assert.deepEqual(device(block, render), block);
});

test('paths of the host follow in the configuration, whatever numbers they have', () => {
  const source = (paths: readonly unknown[]) =>
    JSON.stringify({ device_host_src: paths, id: 'x', spec: { linux: { devices: null } } });
  const paths = [{ path: '/dev/dri/renderD128', major: 1 }, { path: '/dev/kfd' }, { major: 226 }];
  const after = [{ path: '/dev/dri/renderD130', major: 1 }, ...paths.slice(1)];
  assert.equal(rewriteConfig(source(paths), documentChanges([kfd, render])), source(after));
  assert.equal(rewriteConfig(source([]), documentChanges([kfd])), source([]));
});

test('annotations get new values, and none is added', () => {
  const values = { a: '1', b: '2', toString: '3' };
  const spec = (annotations: unknown) => JSON.stringify({ annotations });
  assert.equal(
    rewriteSpec(spec({ b: 'x', c: 'y' }), documentChanges([], values)),
    spec({ b: '2', c: 'y' }),
  );
  for (const none of [null, {}])
    assert.equal(rewriteSpec(spec(none), documentChanges([], values)), spec(none));
  const config = (annotations: unknown) => JSON.stringify({ spec: { annotations }, annotations });
  assert.equal(
    rewriteConfig(config({ a: 'x' }), documentChanges([], values)),
    JSON.stringify({ spec: { annotations: { a: '1' } }, annotations: { a: 'x' } }),
  );
});

test('a document that is not as an engine writes it is refused with its name', () => {
  for (const [name, rewrite] of [
    [
      'spec.dump',
      (linux: unknown) => rewriteSpec(JSON.stringify({ linux }), documentChanges([kfd])),
    ],
    [
      'config.dump',
      (linux: unknown) =>
        rewriteConfig(JSON.stringify({ spec: { linux } }), documentChanges([kfd])),
    ],
  ] as const) {
    for (const linux of [
      { devices: 7 },
      { devices: [{ major: 'x' }] },
      { devices: [{ path: 7 }] },
      { resources: { devices: [null] } },
    ]) {
      assert.throws(() => rewrite(linux), {
        code: 'E_IMAGE_CORRUPT',
        message: new RegExp(`^${name}: Invalid`),
      });
    }
  }
  const annotations = '{"annotations":{"a":1}}';
  assert.throws(() => rewriteSpec(annotations, documentChanges([])), {
    message: /^spec\.dump: Invalid type/,
  });
  const text = (error: Error) => error.message.startsWith('spec.dump: ') && 'cause' in error;
  assert.throws(() => rewriteSpec('{', documentChanges([kfd])), text);
});
