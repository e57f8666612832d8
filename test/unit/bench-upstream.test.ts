/** What `npm run bench -- upstream` takes for a build of CRIU, and how it compares. */

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { pairedRatios } from '../bench/stats.js';
import { repository, temporaryFolder } from './paths.js';

/** The bench with this build. It ends before it sets anything up, or the limit ends it. */
function benchOf(build: string | undefined) {
  const { BENCH_CRIU: _, ...env } = process.env;
  return spawnSync(join(repository, 'test/bench.sh'), ['upstream'], {
    encoding: 'utf8',
    env: { ...env, ...(build !== undefined && { BENCH_CRIU: build }) },
    timeout: 20_000,
  });
}

test('without a named build it says what to name, and does nothing', () => {
  const { status, stderr, stdout } = benchOf(undefined);
  assert.equal(status, 2);
  assert.match(stderr, /^bench: upstream: BENCH_CRIU="" names no folder with criu\/criu: /);
  assert.equal(stdout, '');
});

test('a build without the plugin is none', async (t) => {
  const build = await temporaryFolder(t);
  mkdirSync(join(build, 'criu'));
  writeFileSync(join(build, 'criu/criu'), '');
  const { status, stderr } = benchOf(build);
  assert.equal(status, 2);
  assert.match(stderr, /names no folder with plugins\/amdgpu\/amdgpu_plugin\.so: /);
});

test('samples are compared pair by pair', () => {
  assert.deepEqual(pairedRatios([2, 9], [1, 3]), [2, 3]);
  assert.throws(() => pairedRatios([1, 2], [1]), RangeError);
});
