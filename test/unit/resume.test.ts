import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import { native } from '../../src/native.js';
import { resumeAll } from '../../src/session/restore/resume.js';
import type { Returning } from '../../src/session/restore/returning.js';

test('RESUME is not called for a task that has ended: its pid may be another process', async (t) => {
  const task = spawn('sleep', ['60']);
  await once(task, 'spawn');
  const pid = task.pid as number;
  const pidfd = native().openPidfd(pid);
  t.after(() => pidfd.close());
  const processes = [{ prepared: { ordinal: 3 }, pid, pidfd }] as unknown as Returning[];
  const evicted = [{ pid, counters: new Map<string, string>() }];
  // This machine has no KFD: the call itself fails by that.
  assert.throws(() => resumeAll(processes, evicted), { code: 'KFD_IO' });
  task.kill('SIGKILL');
  await once(task, 'exit');
  assert.throws(() => resumeAll(processes, evicted), {
    code: 'E_GPU_IO',
    message: 'process 3: ended before RESUME',
  });
  resumeAll(processes, []);
});
