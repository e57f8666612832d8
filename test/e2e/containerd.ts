/** Containers through containerd: our shim before the stock shim, and the stock shim alone beside it. */

import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { attempt, run, until } from './support/command.js';
import { image } from './support/container.js';
import {
  Containerd,
  ctr,
  ourRuntime,
  shimsLeft,
  stockRuntime,
  Task,
  temporaryImages,
  topicsOf,
} from './support/containerd.js';
import { assertNothingLeft } from './support/suite.js';

/** What becomes of one container, by everything that can be asked of it; the id is left out. */
async function life(runtime: string, id: string): Promise<unknown> {
  const task = await Task.start(
    runtime,
    id,
    'sh',
    '-c',
    'trap "exit 7" TERM; while :; do sleep 1; done',
  );
  const seen: unknown[] = [];
  const tell = async (...args: string[]) => {
    const { status, stdout, stderr } = await ctr('task', ...args);
    seen.push([
      args[0],
      status,
      stdout.replaceAll(id, 'ID'),
      stderr.replace(/^time=\S+ /gm, '').replaceAll(id, 'ID'),
    ]);
  };
  await Promise.all([
    tell('exec', '--exec-id', 'one', id, 'sh', '-c', 'echo out; echo err >&2; exit 3'),
    // ctr reads its own standard input, and so does the process.
    attempt('sh', '-c', `echo said | ctr task exec --exec-id two ${id} cat`).then(
      ({ status, stdout }) => seen.unshift(['stdin', status, stdout]),
    ),
  ]);
  await tell('exec', '--exec-id', 'three', id, 'no-such-program');
  await tell('pause', id);
  seen.push(await task.status());
  await tell('resume', id);
  await tell('kill', '-s', 'TERM', id);
  await until(`the end of ${id}`, async () => (await task.status()) === 'STOPPED', 30);
  await tell('rm', id);
  await tell('kill', id);
  await run('ctr', 'container', 'rm', id);
  const topics = await until('the last event', () => {
    const all = topicsOf(id);
    return all.at(-1) === '/tasks/delete' && all;
  });
  return [...seen, [...topics].sort()];
}

/** Checkpoint of a GPU container that goes on, restore of it under another name. */
async function gpuRoundTrip(): Promise<Task> {
  const task = await Task.startWithGpu('gpu', '--vram-mib', '16', '--pending-barrier');
  const saving = ctr(
    'container',
    'checkpoint',
    '--task',
    '--rw',
    '--image',
    task.id,
    'localhost/saved',
  );
  const states: string[] = [];
  let saved = false;
  void saving.then(() => {
    saved = true;
  });
  while (!saved) {
    states.push(await task.status());
    await delay(500);
  }
  const { status, stderr } = await saving;
  assert.equal(status, 0, stderr);
  assert.ok(states.includes('PAUSED') && !states.includes('UNKNOWN'), states.join(' '));
  assert.ok(topicsOf(task.id).includes('/tasks/checkpointed'), topicsOf(task.id).join(' '));
  assert.match(await task.control.ask('verify'), /^verified .*barrier=completed/);
  await run('ctr', 'task', 'kill', '-s', 'KILL', task.id);
  await until('its end', async () => (await task.status()) === 'STOPPED', 30);
  await run('ctr', 'task', 'rm', task.id).catch(() => undefined); // its status is that of the task
  await run('ctr', 'container', 'rm', task.id);

  const restored = new Task('restored', task.control);
  await run('ctr', 'container', 'restore', '--live', '--rw', restored.id, 'localhost/saved');
  assert.match(await restored.control.ask('verify'), /^verified .*barrier=completed/);
  await until('no unpacked checkpoint', () => temporaryImages().length === 0, 20);

  assert.match(await run('ctr', 'task', 'ps', restored.id), /^\d+ /m);
  return restored;
}

/** Restores that must not succeed: by our pre-flight, and by CRIU. */
async function refusals(): Promise<void> {
  const restore = (id: string, from: string) => {
    const annotation = `io.kfd-checkpoint.restore-from=${from}`;
    return ctr('run', '-d', '--runtime', ourRuntime, '--annotation', annotation, image, id, 'true');
  };
  const refused = await restore('refused', '/repo/test/fixtures/manifest-v1');
  assert.match(refused.stderr, /failed to create shim task: kfd-checkpoint: E_\w+: /);

  const folder = '/tmp/not-an-image';
  mkdirSync(folder);
  writeFileSync(join(folder, 'descriptors.json'), '["/dev/null", "/dev/null", "/dev/null"]');
  const broken = await restore('broken', folder);
  assert.match(broken.stderr, /; CRIU: Error \(.*; CRIU's log: \/var\/log\/kfd-checkpoint\//s);
  await Promise.all(['refused', 'broken'].map((id) => new Task(id).remove()));
}

/** A stock shim that is killed takes its container and our proxy along. */
async function stockShimKilled(): Promise<void> {
  const task = await Task.start(ourRuntime, 'orphan', 'sleep', '1000');
  process.kill(task.shimPids().stock, 'SIGKILL');
  await task.gone();
  await task.remove();
}

test('containerd', { concurrency: true }, async (suite) => {
  const containerd = await Containerd.start();
  // On this path CRIU hears of the plugin from the shim: the host's configuration has no word of it.
  writeFileSync('/etc/criu/default.conf', '');
  try {
    let saved: Task | undefined;
    await Promise.all([
      suite.test('containerd: our shim gives what the stock shim gives', async () => {
        const runtimes = [life(stockRuntime, 'stock'), life(ourRuntime, 'kfd')] as const;
        const [stock, ours] = await Promise.all(runtimes);
        assert.deepEqual(ours, stock);
      }),
      suite.test('containerd: a GPU container is saved and comes back', async () => {
        saved = await gpuRoundTrip();
      }),
      suite.test('containerd: what cannot be restored is refused with its reason', refusals),
      suite.test('containerd: the stock shim is killed', stockShimKilled),
    ]);
    assert.ok(saved);
    const task = saved;
    await suite.test('containerd: the daemon is killed, then our shim', async () => {
      await containerd.restart();
      assert.equal(await task.status(), 'RUNNING');
      assert.match(await task.control.ask('verify'), /^verified .*barrier=completed/);
      // Nobody could reach the stock shim again: containerd has it removed, and the container with it.
      process.kill(task.shimPids().proxy, 'SIGKILL');
      await task.gone();
      await task.remove();
    });
    await until('the end of the shims', async () => (await shimsLeft()).length === 0, 20).catch(
      async () => assert.deepEqual(await shimsLeft(), []),
    );
    await assertNothingLeft();
  } finally {
    containerd.stop();
    await run('kfd-checkpoint', 'configure');
  }
});
