/** SIGKILL of what stands between containerd and a container with a GPU, at each step of its life. */

import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { attempt, type Outcome, run, until } from './command.js';
import {
  bundlesLeft,
  type Containerd,
  ctr,
  onlyShims,
  shimsLeft,
  Task,
  temporary,
  temporaryImages,
} from './containerd.js';
import { setLinkRate } from './gpu.js';
import { runningSessionThat, sessionPids } from './session.js';
import { assertNothingLeft } from './suite.js';

const victims = ['proxy', 'stock', 'daemon'] as const;
type Victim = (typeof victims)[number];

/** So slow that the contents are in flight for seconds, MB/s. */
const slowMbps = 10;
const worker = ['--vram-mib', '32', '--pending-barrier'];
const saved = 'localhost/to-be-killed';

async function kill(containerd: Containerd, victim: Victim): Promise<void> {
  if (victim === 'daemon') return containerd.restart();
  const shims = await until('the shims', onlyShims, 60, 2);
  process.kill(shims.pids[victim], 'SIGKILL');
}

async function slowly<T>(body: () => Promise<T>): Promise<T> {
  setLinkRate(slowMbps);
  try {
    return await body();
  } finally {
    setLinkRate(0);
  }
}

/** Waits for the session of what `command` does, which is not to be over before. */
async function sessionOf(
  command: Promise<Outcome>,
  ...step: Parameters<typeof runningSessionThat>
): Promise<void> {
  const over = command.then(({ status, stderr }) => {
    throw new Error(`over before "${step[1]}", status ${status}: ${stderr}`);
  });
  await Promise.race([runningSessionThat(...step), over]);
}

async function assertAllGone(what: string): Promise<void> {
  for (const name of temporaryImages()) rmSync(join(temporary, name), { recursive: true });
  await until('the end of the shims', async () => (await shimsLeft()).length === 0, 60).catch(
    async () => assert.deepEqual(await shimsLeft(), [], what),
  );
  assert.deepEqual(bundlesLeft(), [], what);
  await assertNothingLeft();
}

/** Whichever way it went: a container that is there computes. */
async function assertComputesOrIsGone(task: Task): Promise<void> {
  const status = await until('a state', async () => {
    const now = await task.status();
    return now !== 'UNKNOWN' && now !== 'CREATED' && now;
  });
  if (status === 'PAUSED') await run('ctr', 'task', 'resume', task.id); // ctr went with the daemon
  if (status === 'PAUSED' || status === 'RUNNING') {
    assert.match(await task.control.ask('verify'), /^verified .*barrier=completed/);
  }
}

async function programs(): Promise<string[]> {
  const { stdout } = await attempt('pgrep', '-x', 'gpu-worker');
  return stdout.split('\n').filter((pid) => pid !== '');
}

async function atStart(containerd: Containerd, victim: Victim): Promise<void> {
  const task = new Task(`start-${victim}`);
  const starting = ctr(...task.runWithGpu([], 'gpu-worker', ...worker));
  await until('its shims', onlyShims, 60, 2);
  await kill(containerd, victim);
  await starting; // that may have come too late
  await task.remove();
}

async function atCheckpoint(containerd: Containerd, victim: Victim): Promise<void> {
  const task = await Task.startWithGpu(`checkpoint-${victim}`, ...worker);
  const { status } = await slowly(async () => {
    const saving = ctr(
      'container',
      'checkpoint',
      '--task',
      '--rw',
      task.id,
      `localhost/${task.id}`,
    );
    await sessionOf(saving, 'dump', 'draining');
    await kill(containerd, victim);
    return saving;
  });
  assert.notEqual(status, 0, 'the checkpoint should have failed');
  await until('the end of the session', async () => (await sessionPids()).length === 0);
  if (victim === 'daemon') await assertComputesOrIsGone(task);
  else await task.gone();
  await task.remove();
}

async function atRestore(containerd: Containerd, victim: Victim, task: Task): Promise<void> {
  const { status } = await slowly(async () => {
    const restoring = ctr('container', 'restore', '--live', '--rw', task.id, saved);
    await sessionOf(restoring, 'restore', 'uploading');
    await kill(containerd, victim);
    return restoring;
  });
  assert.notEqual(status, 0, 'the restore should have failed');
  await until('the end of the session', async () => (await sessionPids()).length === 0);
  // Who asked for it was told that it failed. For all that containerd knows the task may still be there: one never
  // started.
  await until('the end of the program', async () => (await programs()).length === 0);
  assert.ok(['none', 'CREATED'].includes(await task.status()));
  await task.end(); // the folder is wanted for the next
}

/** Every case leaves the container computing, or nothing of it. There must be no other container. */
export async function kills(containerd: Containerd): Promise<void> {
  for (const victim of victims) {
    await atStart(containerd, victim);
    await assertAllGone(`${victim} killed at a start`);
    await atCheckpoint(containerd, victim);
    await assertAllGone(`${victim} killed at a checkpoint`);
  }
  const source = await Task.startWithGpu('source', ...worker);
  await run('ctr', 'container', 'checkpoint', '--task', '--rw', source.id, saved);
  await source.end();
  for (const victim of victims) {
    await atRestore(containerd, victim, new Task(`restore-${victim}`, source.control));
    await assertAllGone(`${victim} killed at a restore`);
  }
  await source.remove();
  await run('ctr', 'images', 'rm', saved);
}
