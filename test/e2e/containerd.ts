/** Containers through containerd: our shim before the stock shim, and the stock shim alone beside it. */

import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { run, until } from './support/command.js';
import { image } from './support/container.js';
import {
  Containerd,
  ctr,
  eventsOf,
  haveNextRelease,
  nextRelease,
  ourRuntime,
  shimsLeft,
  stockRuntime,
  Task,
  temporaryImages,
} from './support/containerd.js';
import { cycles } from './support/containerd-cycles.js';
import { exportedImage, restoreExported } from './support/containerd-images.js';
import { life } from './support/containerd-life.js';
import { setLinkRate } from './support/gpu.js';
import { partTest } from './support/part.js';
import { runningSessionThat } from './support/session.js';
import { assertNothingLeft } from './support/suite.js';

const going = '/tmp/checkpoint-going-on';
const ended = '/tmp/checkpoint-ended';
const savedImage = 'localhost/saved';
const sessionLogs = '/var/log/kfd-checkpoint';

/** Checkpoint of a GPU container that continues, restore of it under another name from a file. */
async function gpuRoundTrip(): Promise<Task> {
  const task = await Task.startWithGpu('gpu', '--vram-mib', '16', '--pending-barrier');
  const saving = ctr('container', 'checkpoint', '--task', '--rw', '--image', task.id, savedImage);
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
  const topics = eventsOf(task.id).map(({ topic }) => topic);
  assert.ok(topics.includes('/tasks/checkpointed'), topics.join(' '));
  assert.match(await task.control.ask('verify'), /^verified .*barrier=completed/);
  await task.end();

  const restored = new Task('restored', task.control);
  const file = await exportedImage(savedImage, 16 << 20);
  await restoreExported(savedImage, file, restored.id);
  assert.match(await restored.control.ask('verify'), /^verified .*barrier=completed/);
  await until('no unpacked checkpoint', () => temporaryImages().length === 0, 20);

  assert.match(await run('ctr', 'task', 'ps', restored.id), /^\d+ /m);
  return restored;
}

/**
 * Checkpoints into folders of ours: of a container that continues, and of one that ends, which comes back by
 * annotation.
 */
async function intoFolders(task: Task): Promise<Task> {
  const save = (folder: string, ...flags: string[]) =>
    run('ctr', 'task', 'checkpoint', ...flags, '--image-path', folder, task.id);
  assert.match(await task.control.ask('verify'), /^verified .*barrier=completed/);
  for (const folder of [going, ended]) mkdirSync(folder);
  await save(going);
  assert.equal(await task.status(), 'RUNNING');
  assert.match(await task.control.ask('verify'), /^verified .*barrier=completed/);
  await save(ended, '--exit');
  assert.equal(await task.status(), 'STOPPED');
  await task.end();
  for (const folder of [going, ended]) await run('kfd-checkpoint', 'verify', folder);

  const again = new Task('again', task.control);
  const annotation = ['--annotation', `io.kfd-checkpoint.restore-from=${ended}`];
  await run('ctr', ...again.runWithGpu(annotation, 'true'));
  assert.match(await again.control.ask('verify'), /^verified .*barrier=completed/);
  return again;
}

/** So slow that the contents take most of a minute, MB/s. The driver resets a GPU whose copy of 16 MiB takes 10 s. */
const slowMbps = 4;

/** As the kubelet after its time limit: nobody waits any more, and the client's own resume has no time left. */
async function givenUp(): Promise<void> {
  const task = await Task.startWithGpu('slow', '--vram-mib', '64', '--pending-barrier');
  const save = (name: string, ...flags: string[]) =>
    ctr(...flags, 'container', 'checkpoint', '--task', task.id, `localhost/${name}`);
  setLinkRate(slowMbps);
  try {
    const saving = save('given-up', '--timeout', '30s');
    await runningSessionThat('dump', 'draining');
    const { status, stderr } = await saving;
    assert.match(`${status} ${stderr}`, /^1 .*deadline exceeded/is);
    await until('the end of the pause', async () => (await task.status()) === 'RUNNING', 60);
  } finally {
    setLinkRate(0);
  }
  assert.match(await task.control.ask('verify'), /^verified .*barrier=completed/);
  const again = await save('not-given-up');
  assert.equal(again.status, 0, again.stderr);
  // containerd 1.7 reports a success also without the processes.
  const topics = eventsOf(task.id).map(({ topic }) => topic);
  assert.equal(
    topics.filter((topic) => topic === '/tasks/checkpointed').length,
    1,
    topics.join(' '),
  );
  await task.end();
}

/**
 * Every session since `began` has had limits of its own. A checkpoint into a tmpfs, as in this guest, has none for
 * memory. Names of logs begin with the time.
 */
function assertLimits(began: string): void {
  const logs = readdirSync(sessionLogs).filter(
    (name) => /Z-(dump|restore)-\d+\.log$/.test(name) && name > began,
  );
  assert.notEqual(logs.length, 0);
  for (const name of logs) {
    const text = readFileSync(join(sessionLogs, name), 'utf8');
    const limit = name.includes('-dump-') ? '"none"' : '9663676416';
    assert.ok(
      text.includes(`"memory_bytes":${limit},"tasks":4096,"msg":"limits"`),
      `${name}: ${text}`,
    );
  }
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
  process.kill(task.shims().pids.stock, 'SIGKILL');
  await task.gone();
  await task.remove();
}

partTest('two shims', { concurrency: true }, async (suite) => {
  const began = new Date().toISOString().replace(/[:.]/g, '-');
  const containerd = await Containerd.start();
  // On this path CRIU hears of the plugin from the shim: the host's configuration has no word of it.
  writeFileSync('/etc/criu/default.conf', '');
  try {
    let saved: Task | undefined;
    await Promise.all([
      suite.test('our shim gives what the stock shim gives', async () => {
        const runtimes = [life(stockRuntime, 'stock'), life(ourRuntime, 'kfd')] as const;
        const [stock, ours] = await Promise.all(runtimes);
        assert.deepEqual(ours, stock);
      }),
      suite.test('a GPU container is saved and comes back', async () => {
        saved = await gpuRoundTrip();
      }),
      suite.test('what cannot be restored is refused with its reason', refusals),
      suite.test('the stock shim is killed', stockShimKilled),
    ]);
    assert.ok(saved);
    let task = saved;
    await suite.test('containers come and go', () => cycles(6));
    await suite.test('a checkpoint that nobody waits for is cancelled', givenUp);
    assertLimits(began);
    const skip = haveNextRelease ? false : 'there was no second containerd when the guest was made';
    await suite.test('the daemon is upgraded', { skip }, async () => {
      await containerd.restart(nextRelease);
      await exportedImage(savedImage, 16 << 20);
      task = await intoFolders(task);
    });
    await suite.test('the daemon is killed, then our shim', async () => {
      await containerd.restart();
      assert.equal(await task.status(), 'RUNNING');
      assert.match(await task.control.ask('verify'), /^verified .*barrier=completed/);
      // Nobody could reach the stock shim again: containerd has it removed, and the container with it.
      process.kill(task.shims().pids.proxy, 'SIGKILL');
      await task.gone();
      await task.remove();
    });
    await until('the end of the shims', async () => (await shimsLeft()).length === 0, 20).catch(
      async () => assert.deepEqual(await shimsLeft(), []),
    );
    await assertNothingLeft();
  } finally {
    await containerd.stop();
    await run('kfd-checkpoint', 'configure');
  }
});
