/** What a restore session lets go and waits for, and what it does when CRIU ends at another moment than usual. */

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import fs from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import timers from 'node:timers/promises';
import { KfdError } from '../../src/errors.js';
import { native } from '../../src/native.js';
import { deferred } from '../../src/session/deferred.js';
import { messageType } from '../../src/session/plugin/wire.js';
import type { DeviceFilter } from '../../src/session/restore/device-filter.js';
import { RestoreTree } from '../../src/session/restore/tree.js';
import { fakeJobs, SlowJob } from './fake-job.js';
import { lives } from './lives.js';
import { patched } from './patched.js';
import { temporaryFolder } from './paths.js';
import { logLines, restoreTask, type Started, started } from './played-restore.js';

const delay = timers.setTimeout;

const processOf = ({ session }: Started) => {
  const [process] = session.processes;
  assert.ok(process);
  return process;
};

/** Puts the task of the process into a device filter. */
function filtered(all: Started, leave: () => Promise<void>): void {
  processOf(all).filter = { leave } as unknown as DeviceFilter;
}

test('a task has left its device filter before it goes on', async (t) => {
  const all = await started(t);
  let left = false;
  filtered(all, async () => {
    await delay(5);
    left = true;
  });
  await restoreTask(t, all);
  assert.ok(left);
});

test('before CRIU hears of a failure everything of the GPU is let go, whatever a cgroup says', async (t) => {
  const all = await started(t);
  await restoreTask(t, all);
  const process = processOf(all);
  const dmabufs = [...process.dmabufs.values()];
  assert.equal(dmabufs.length, 4);
  let closed = false;
  const close = () => {
    closed = true;
  };
  process.render.set('51966/0', { fd: 17, close });
  filtered(all, () => Promise.reject(new KfdError('E_IO', 'cgroup: gone')));
  all.session.cancel(new KfdError('E_CANCELLED', 'session: cancelled: enough'));
  const gate = await all.stage('post-restore');
  assert.match(gate.text, /^E_CANCELLED: /);
  assert.deepEqual([closed, dmabufs.map(({ fd }) => fd)], [true, [-1, -1, -1, -1]]);
  assert.equal(process.filter, undefined);
  assert.equal((await all.finish()).code, 'E_CANCELLED');
  const [line] = await logLines(all, 'cannot leave a cgroup');
  assert.equal(line?.['process'], 0);
});

/** From now on KFD shows a counter of evictions for every process and GPU: it is in the returned file. */
async function shownEvictions(t: TestContext): Promise<string> {
  const counter = join(await temporaryFolder(t), 'evicted_ms');
  writeFileSync(counter, '0\n');
  const { open, readlink } = fs;
  patched(t, fs, {
    open: ((path: string, ...more: []) =>
      open(String(path).endsWith('/evicted_ms') ? counter : path, ...more)) as typeof open,
    readlink: (async (path: string) =>
      path === '/proc/self/ns/pid' ? 'pid:[4026531836]' : readlink(path)) as typeof readlink,
  });
  return counter;
}

test('the restore has succeeded when the queues run again, not when RESUME returns', async (t) => {
  const counter = await shownEvictions(t);
  const all = await started(t);
  await restoreTask(t, all);
  let answered = false;
  const gate = all.stage('post-restore').finally(() => {
    answered = true;
  });
  while (all.resumed.length === 0) await delay(1);
  await delay(30);
  assert.equal(answered, false);
  writeFileSync(counter, '1\n');
  assert.equal((await gate).type, messageType.ok);
});

test('RESUME is not called when CRIU has ended at that moment', async (t) => {
  const all = await started(t);
  await restoreTask(t, all);
  // The task is ended, too. Here its pid still looks alive, as a new process with it would.
  t.mock.method(native(), 'isAlive', () => true);
  const { phases } = all.context;
  let ended: ReturnType<Started['finish']> | undefined;
  t.mock.method(phases, 'enter', (name: string) => {
    // It is seen before the counters of evictions have been read.
    if (name === 'resume') ended = all.session.finish();
  });
  void all.stage('post-restore');
  while (ended === undefined) await delay(1);
  await all.die();
  assert.equal((await ended).outcome, 'failed');
  await delay(20);
  assert.deepEqual(all.resumed, []);
});

test('a message that CRIU sent before its end counts, also when its end is seen first', async (t) => {
  const all = await started(t);
  await restoreTask(t, all);
  await all.stage('post-restore');
  const [asked, heard] = [deferred(), deferred()];
  const until = (ms: number, ...more: []) => {
    if (ms !== 500) return delay(ms, ...more);
    asked.resolve();
    return heard.promise;
  };
  patched(t, timers, { setTimeout: until as typeof delay });
  const finished = all.finish();
  await Promise.race([asked.promise, finished]);
  await all.stage('post-resume');
  heard.resolve();
  assert.equal((await finished).outcome, 'restored');
  assert.ok(lives(all.task));
});

test('a CRIU that failed after the gate leaves no task behind', async (t) => {
  const all = await started(t);
  await restoreTask(t, all);
  await all.stage('post-restore');
  await all.ask(messageType.restoreEnd, [1]);
  assert.equal((await all.finish()).outcome, 'failed');
  assert.ok(!lives(all.task));
  const [line] = await logLines(all, 'ended tasks CRIU left behind');
  assert.deepEqual(line?.['pids'], [all.task]);
});

test('a session ends after its tasks have ended, and forgets them', async (t) => {
  const all = await started(t);
  await restoreTask(t, all);
  const { pidfd } = processOf(all);
  const { end } = RestoreTree.prototype;
  let ended = false;
  t.mock.method(RestoreTree.prototype, 'end', async function (this: RestoreTree) {
    const pids = await end.call(this);
    await delay(20);
    ended = true;
    return pids;
  });
  await all.finish();
  assert.deepEqual([ended, pidfd?.fd], [true, -1]);
});

test('a session whose transfer does not end is given up, and the log says what it holds', async (t) => {
  const all = await started(t);
  fakeJobs(t, () => new SlowJob());
  await restoreTask(t, all);
  const waited: unknown[] = [];
  const soon = (ms: number, ...more: []) => {
    waited.push(ms);
    return delay(ms === 20_000 ? 50 : ms, ...more);
  };
  patched(t, timers, { setTimeout: soon as typeof delay });
  assert.equal((await all.finish()).outcome, 'failed');
  assert.ok(waited.includes(20_000));
  const [line] = await logLines(all, 'does not end by itself');
  assert.deepEqual([line?.['seconds'], line?.['held']], [20, 'releasing']);
  assert.deepEqual(await logLines(all, 'session ended'), []);
});
