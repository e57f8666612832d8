import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { withoutStages } from '../../src/bundle/plugins.js';
import { points, stages } from '../faults/stages/list.js';
import { repository } from './paths.js';

function sources(): string[] {
  return ['native/core', 'native/criu-plugin', 'native/launcher', 'shim', 'src'].flatMap((folder) =>
    readdirSync(join(repository, folder), { recursive: true, encoding: 'utf8' })
      .filter((name) => /\.(cc|ts)$/.test(name))
      .map((name) => readFileSync(join(repository, folder, name), 'utf8')),
  );
}

/** `[side, point]` of each call; the point is undefined where it is no literal. */
function calls(): [string, string | undefined][] {
  return sources().flatMap((text) =>
    [...text.matchAll(/\bstage\(['"]([a-z-]+)['"], (?:['"]([a-z-]+)['"]|[^)]+)\);/g)].map(
      ([, side, point]): [string, string | undefined] => [side as string, point],
    ),
  );
}

test('every point where a process can be held has a name in the list, and every name a point', () => {
  const made = calls();
  for (const [side, point] of made) {
    const known: readonly string[] | undefined = points[side as keyof typeof points];
    assert.ok(known !== undefined, side);
    if (point !== undefined) assert.ok(known.includes(point), `${side}.${point}`);
  }
  const computed = new Set(made.filter(([, point]) => point === undefined).map(([side]) => side));
  const literal = new Set(made.map(([side, point]) => `${side}.${point}`));
  for (const name of stages) {
    const [side = ''] = name.split('.');
    assert.ok(literal.has(name) || computed.has(side), `${name}: nobody comes there`);
  }
});

test('a program without points does what it did with them', () => {
  const { transform } = withoutStages() as unknown as {
    transform: (code: string, id: string) => { code: string };
  };
  const withPoints = [
    'const done = [];',
    'const stage = () => done.push("point");',
    'if (condition)',
    "    stage('session-restore', state.phase);",
    'for (const effect of [1, 2]) done.push(effect);',
    'return done;',
    '',
  ].join('\n');
  const { code } = transform(withPoints, join(repository, 'dist/src/session/x.js'));
  assert.ok(!code.includes("stage('"), code);
  for (const condition of [true, false]) {
    assert.deepEqual(new Function('condition', 'state', code)(condition, {}), [1, 2]);
  }
});

test('a release build has none of them', () => {
  const programs = ['criu/kfd_checkpoint.so', 'kfd-checkpoint-launch', 'kfd_checkpoint.node'];
  const sides = Object.keys(points).filter((side) => side.includes('-'));
  for (const program of programs) {
    const bytes = readFileSync(join(repository, 'build/native', program));
    for (const text of ['kfd-checkpoint-stages', ...sides]) {
      assert.equal(bytes.indexOf(text), -1, `${program} contains ${text}`);
    }
  }
});
