import assert from 'node:assert/strict';
import { test } from 'node:test';
import { archive, gpuCheckpoint } from './archive-builder.js';
import { cli } from './cli-context.js';

test('verify: sound is 0, damage is 5 and names the file, progress is on stderr', async (t) => {
  const { files } = gpuCheckpoint();
  const sound = await cli(['verify', await archive(t, files)]);
  assert.equal(sound.code, 0, sound.stderr);
  assert.match(sound.stdout, /^amdgpu-pages-0-0000\.img +19 B +2 +0 +0 +ok$/m);
  assert.match(sound.stderr, /^amdgpu-pages-0-0000\.img: 19 B$/m);
  assert.equal((await cli(['verify', '--quiet', await archive(t, files)])).stderr, '');
  files['checkpoint/amdgpu-pages-0-0001.img'] = 'xxxxxxxxxxxxxxxxxxx';
  const path = await archive(t, files);
  const damaged = await cli(['verify', '--quiet', path]);
  assert.equal(damaged.code, 5);
  assert.match(damaged.stdout, /^amdgpu-pages-0-0001\.img +19 B +- +- +- +fail$/m);
  assert.match(
    damaged.stderr,
    /^Error: .*amdgpu-pages-0-0001\.img: pages file: frame 0: wrong checksum\n/,
  );
  const report = JSON.parse((await cli(['verify', '--format', 'json', path])).stdout) as {
    sound: boolean;
  };
  assert.equal(report.sound, false);
});
