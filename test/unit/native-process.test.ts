/** Processes by their pidfds, threads and the KFD version, through the addon. */

import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { native } from '../../src/native.js';
import { repository } from './paths.js';

function sleeper(t: TestContext): ChildProcess & { pid: number } {
  const child = spawn('sleep', ['60']);
  t.after(() => child.kill('SIGKILL'));
  assert.ok(child.pid);
  return child as ChildProcess & { pid: number };
}

test('a process is watched, found alive, killed and found dead by its pidfd', async (t) => {
  const child = sleeper(t);
  const pidfd = native().openPidfd(child.pid);
  t.after(() => pidfd.close());
  assert.equal(native().isAlive(pidfd), true);
  let ends = 0;
  const ended = new Promise<void>((resolve) => {
    native().watchExit(pidfd, () => {
      ends++;
      resolve();
    });
  });
  const stop = native().watchExit(pidfd, () => {
    ends += 100;
  });
  stop();
  await sleep(20);
  assert.equal(ends, 0);
  native().kill(pidfd);
  await ended;
  assert.equal(native().isAlive(pidfd), false);
  await sleep(20);
  assert.equal(ends, 1);
  pidfd.close();
  assert.throws(() => native().isAlive(pidfd), TypeError);
  assert.throws(() => native().openPidfd(2 ** 22 + 1), { code: 'KFD_IO' });
});

test('where no thread can be made there is an error, not the end of the session', () => {
  // With no address space left, in a program of its own; little may be allocated there.
  const script = `
    const native = require(process.argv[1]);
    const pidfd = native.openPidfd(process.pid);
    const limit = ['--pid', String(process.pid), '--as=1048576'];
    require('node:child_process').execFileSync('prlimit', limit);
    try {
      native.watchExit(pidfd, () => undefined);
    } catch (error) {
      require('node:fs').writeSync(1, error.code + ' ' + error.message);
    }
    process.reallyExit(0);`;
  const addon = join(repository, 'build/native/kfd_checkpoint.node');
  const said = execFileSync(process.execPath, ['-e', script, addon], { encoding: 'utf8' });
  assert.match(said, /^KFD_IO thread: /);
});

test('the KFD version is that of /dev/kfd; without it there is an error with the path', () => {
  if (existsSync('/dev/kfd')) {
    assert.ok(native().kfdVersion().minor >= 0);
  } else {
    const missing = { code: 'KFD_IO', message: /^\/dev\/kfd: /, errno: 2 };
    assert.throws(() => native().kfdVersion(), missing);
    assert.throws(() => native().kfdResume(process.pid), missing);
  }
});

test('a queue is not said to be taken where there is no kernel to ask', {
  skip: existsSync('/dev/kfd'),
}, () => {
  const gpus = [{ gpuId: 7, renderNode: '/dev/dri/renderD128' }];
  const queue = { gpus, gpuId: 7, type: 0, dieBytes: 2048, mqdBytes: 16384 };
  assert.equal(native().kfdRestoreTakes(queue), 'unknown');
});

test('a trial of copies needs a render node, and a known engine', async () => {
  const options = { slots: 1, slotBytes: 4096, bytes: 4096, seed: 1 } as const;
  const tried = (renderNode: string) =>
    native().tryCopies({ ...options, renderNode, engine: 'sdma' });
  await assert.rejects(tried('/nonexistent').done, { code: 'KFD_IO' });
  const job = tried('/dev/null');
  job.cancel();
  await assert.rejects(job.done, { code: 'KFD_GPU' });
  const wrong = { ...options, renderNode: '/dev/null', engine: 'auto' as 'cpu' };
  assert.throws(() => native().tryCopies(wrong), /engine: not one of sdma, cpu/);
});

test('a trial of pauses refuses a process without KFD, before it is traced', async (t) => {
  const child = sleeper(t);
  const asked = native().tryPauses(child.pid, 1, 0);
  await assert.rejects(asked, { code: 'KFD_UNSUPPORTED', message: /no file of \/dev\/kfd/ });
  assert.ok(native().isAlive(native().openPidfd(child.pid)));
});
