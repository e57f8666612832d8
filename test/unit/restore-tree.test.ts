import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { native } from '../../src/native.js';
import { RestoreTree } from '../../src/session/restore/tree.js';
import { lives } from './lives.js';
import { temporaryFolder } from './paths.js';

/** A shell that plays CRIU and runs `script`, which prints the pids that it starts. */
async function criu(t: TestContext, script: string, image: string, expected: number) {
  const shell = spawn('sh', ['-c', `${script}\nwhile :; do sleep 1; done`], {
    env: { ...process.env, IMAGE: image },
    stdio: ['pipe', 'pipe', 'ignore'],
  });
  t.after(() => shell.kill('SIGKILL'));
  const tree = new RestoreTree(shell.pid as number, image);
  t.after(() => tree.close());
  let text = '';
  shell.stdout.on('data', (chunk: Buffer) => {
    text += chunk.toString();
  });
  const pids = () => text.split(/\s+/).filter(Boolean).map(Number);
  while (pids().length < expected) await delay(5);
  t.after(() => {
    for (const pid of pids()) if (lives(pid)) process.kill(pid, 'SIGKILL');
  });
  return { shell, tree, pids: pids(), later: pids };
}

async function die(shell: ChildProcess): Promise<void> {
  shell.kill('SIGKILL');
  await once(shell, 'exit');
}

/** A first task with two children. Only one of them is known to the session. */
const family = `sh -c 'sleep 61 & echo $!; sleep 62 & echo $!; echo $$; wait' &`;

test('CRIU is killed: the tree of each task that was met ends whole, and nothing else', async (t) => {
  const image = await temporaryFolder(t);
  const bystander = spawn('sleep', ['63']);
  t.after(() => bystander.kill('SIGKILL'));
  const { shell, tree, pids } = await criu(t, family, image, 3);
  const younger = spawn('sleep', ['64']);
  t.after(() => younger.kill('SIGKILL'));
  const [met = 0] = pids;
  tree.meet(met);
  await die(shell);
  assert.deepEqual(pids.map(lives), [true, true, true], 'the sleeps outlive their CRIU');
  const ended = await tree.end();
  assert.deepEqual(ended.sort(), [...pids].sort());
  assert.deepEqual(pids.map(lives), [false, false, false]);
  assert.ok(lives(bystander.pid as number) && lives(younger.pid as number));
});

test('CRIU is killed before any task has sent a message: its forks are known by program and image', async (t) => {
  const image = await temporaryFolder(t);
  const fork = `sh -c 'exec 7<"$IMAGE"; echo $$; while :; do sleep 1; done' &`;
  const { shell, tree, pids } = await criu(t, fork, image, 1);
  const { pids: others } = await criu(t, fork, await temporaryFolder(t), 1);
  await die(shell);
  await tree.end();
  assert.deepEqual(pids.map(lives), [false]);
  assert.deepEqual(others.map(lives), [true], 'a restore of another image goes on');
});

test('a pid that belongs to another process by now is not killed', async (t) => {
  const image = await temporaryFolder(t);
  const { shell, tree, pids } = await criu(t, 'sleep 0.2 & echo $!', image, 1);
  const [met = 0] = pids;
  const pidfd = tree.meet(met);
  while (native().isAlive(pidfd)) await delay(20);
  await die(shell);
  assert.deepEqual(await tree.end(), []);
});

test('a task that was met is known again, and not by its pid alone', async (t) => {
  const image = await temporaryFolder(t);
  const { tree, pids } = await criu(t, family, image, 3);
  const [met = 0] = pids;
  assert.equal(tree.meet(met), tree.meet(met));
  assert.throws(() => tree.meet(2 ** 22 + 1), { code: 'KFD_IO' });
  assert.equal(existsSync(join('/proc', String(met))), true);
});

test('a task below a process that is none of the restore ends alone', async (t) => {
  const image = await temporaryFolder(t);
  // It is older than CRIU, and not above it: an exec into the container.
  const other = await criu(t, "read line; sh -c 'sleep 65 & echo $!; echo $$; wait' &", image, 0);
  await delay(50); // the kernel tells the time of a start in ticks of 10 ms
  const { shell, tree } = await criu(t, '', image, 0);
  other.shell.stdin.write('go\n');
  while (other.later().length < 2) await delay(5);
  const [child = 0, met = 0] = other.later();
  const second = tree.meet(met);
  assert.equal(tree.meet(met), second);
  await die(shell);
  assert.deepEqual(await tree.end(), [met]);
  assert.deepEqual([met, child, other.shell.pid as number].map(lives), [false, true, true]);
  tree.close();
  assert.equal(second.fd, -1);
  assert.deepEqual(await tree.end(), [], 'nothing is known any more');
});
