import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { native } from '../../src/native.js';
import { anySurvives } from '../../src/session/dump/survivors.js';
import { lives } from './lives.js';

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
