/** The real program: how it ends when a verb never does, and on signals. */

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { repository, temporaryFolder } from './paths.js';

const program = join(repository, 'dist/src/cli/main.js');

test('a program that has nothing left to wait for, and no result, has failed', async (t) => {
  const stuck = join(await temporaryFolder(t), 'stuck.mjs');
  // No write is ever finished, and nothing keeps the program alive for it.
  await writeFile(stuck, 'process.stdout.write = () => true;');
  const { status, stderr } = spawnSync(process.execPath, ['--import', stuck, program, 'version'], {
    encoding: 'utf8',
  });
  assert.equal(status, 1);
  assert.match(stderr, /^Error: kfd-checkpoint: ended without a result\nHint: {2}this is a bug/);
});

test('the first SIGINT ends a verb with nothing to undo, even one that does not listen', async (t) => {
  const folder = await temporaryFolder(t);
  const started = join(folder, 'started');
  // It answers no question. Nothing stays behind for long.
  const criu = `#!/bin/sh\ntouch ${started}\nexec sleep 8 >/dev/null 2>&1\n`;
  await writeFile(join(folder, 'criu'), criu, { mode: 0o755 });
  const child = spawn(process.execPath, [program, 'check'], {
    env: { PATH: `${folder}:/usr/bin:/bin` },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let stderr = '';
  child.stderr.on('data', (chunk: Buffer) => {
    stderr += chunk.toString();
  });
  const ended = once(child, 'exit');
  while (!existsSync(started)) await sleep(20);
  const start = Date.now();
  child.kill('SIGINT');
  assert.deepEqual(await ended, [130, null]);
  assert.ok(Date.now() - start < 5000, 'it waited for the program');
  assert.match(stderr, /^Error: kfd-checkpoint: interrupted$/m);
});
