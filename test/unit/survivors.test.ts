import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { native } from '../../src/native.js';
import { anySurvives } from '../../src/session/dump/survivors.js';
import { lives } from './lives.js';
import { temporaryFolder } from './paths.js';

async function child(t: TestContext, command: string, ...args: string[]): Promise<ChildProcess> {
  const process = spawn(command, args, { stdio: ['pipe', 'pipe', 'ignore'] });
  t.after(() => process.kill('SIGKILL'));
  await once(process, 'spawn');
  return process;
}

function known(t: TestContext, pid: number) {
  const pidfd = native().openPidfd(pid);
  t.after(() => pidfd.close());
  return { pid, pidfd };
}

test('a tree survives when one of its processes lives and nothing ends it', async (t) => {
  assert.equal(await anySurvives([]), false);
  const [first, second] = [await child(t, 'sleep', '60'), await child(t, 'sleep', '60')];
  const both = [known(t, first.pid as number), known(t, second.pid as number)];
  assert.equal(await anySurvives(both), true);
  first.kill('SIGKILL');
  assert.equal(await anySurvives(both), true, 'the other one lives');
  const exit = once(second, 'exit');
  second.kill('SIGKILL');
  assert.equal(await anySurvives(both), false, 'both were killed, and may not have ended yet');
  await exit;
  assert.equal(await anySurvives(both), false);
});

test('a process that is stopped survives: CRIU stops its tree, too', async (t) => {
  const stopped = await child(t, 'sleep', '60');
  const one = known(t, stopped.pid as number);
  stopped.kill('SIGSTOP');
  assert.equal(await anySurvives([one]), true);
});

test('a process that nobody has waited for, and a pid of another process, do not survive', async (t) => {
  const shell = await child(t, 'sh', '-c', 'sleep 0.1 & echo $!; exec sleep 60');
  const [text] = (await once(shell.stdout as NodeJS.ReadableStream, 'data')) as [Buffer];
  const ended = known(t, Number(text.toString()));
  while (lives(ended.pid)) await delay(5);
  assert.equal(await anySurvives([ended]), false);
  // The pid of this very process, and what was once known under it.
  assert.equal(await anySurvives([{ pid: process.pid, pidfd: ended.pidfd }]), false);
  assert.equal(
    await anySurvives([{ pid: 2 ** 22 + 1, pidfd: known(t, process.pid).pidfd }]),
    false,
  );
});

/** A folder /proc where this process, which lives, has one task with these flags and pending signals. */
async function procWith(t: TestContext, flags: number, thread: number, whole: number) {
  const proc = await temporaryFolder(t);
  const task = join(proc, `${process.pid}/task/${process.pid}`);
  await mkdir(task, { recursive: true });
  await writeFile(join(task, 'stat'), `${process.pid} (a) b) S 1 1 1 0 -1 ${flags} 0 0\n`);
  const mask = (bits: number) => bits.toString(16).padStart(16, '0');
  const status = `SigPnd:\t${mask(thread)}\nShdPnd:\t${mask(whole)}\nSigBlk:\t${mask(0x100)}\n`;
  await writeFile(join(task, 'status'), status);
  return proc;
}

test('a task ends when it exits, or when SIGKILL waits for it or for its process', async (t) => {
  const [exiting, signaled, randomized] = [0x4, 0x400, 0x400000];
  const [kill, term] = [0x100, 0x4000];
  const survives = async (flags: number, thread: number, whole: number) =>
    anySurvives([known(t, process.pid)], await procWith(t, flags, thread, whole));
  assert.equal(await survives(randomized, 0, 0), true);
  assert.equal(await survives(randomized, term, term), true, 'SIGTERM may be caught');
  assert.equal(await survives(randomized | exiting, 0, 0), false);
  assert.equal(await survives(randomized | signaled, 0, 0), false);
  assert.equal(await survives(randomized, kill, 0), false);
  assert.equal(await survives(randomized, 0, kill | term), false);
});

test('a task that is gone when it is read has ended', async (t) => {
  const proc = await temporaryFolder(t);
  await mkdir(join(proc, `${process.pid}/task/${process.pid}`), { recursive: true });
  assert.equal(await anySurvives([known(t, process.pid)], proc), false);
});

test('a process that lives at the first look and not at the second one does not survive', async (t) => {
  let looks = 0;
  t.mock.method(native(), 'isAlive', () => ++looks === 1);
  assert.equal(await anySurvives([known(t, process.pid)]), false);
  assert.equal(looks, 2);
});
