/** Containers of containerd move. Device numbers of both guests are the same, until a test changes those of host-b. */

import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { attempt, until } from '../e2e/support/command.js';
import { counter, image } from '../e2e/support/container.js';
import { Containerd } from '../e2e/support/containerd.js';
import { hostB, meetComplaintThere, there } from '../e2e/support/host-b.js';
import { imagesOf, MovingTask, startThere, stopThere } from './containerd-b.js';
import {
  begin,
  migrate,
  nothingLeft,
  reasonsAgainst,
  show,
  withoutNetwork,
  worker,
} from './support.js';

const engine = ['--engine', 'containerd'];

const containerd = await Containerd.start();
after(() => containerd.stop());

/** A test with a task that goes at its end, whatever has become of it. */
function taskTest(name: string, id: string, body: (job: MovingTask) => Promise<void>): void {
  test(`containerd: ${name}`, async () => {
    const job = await MovingTask.start(id, worker);
    try {
      await body(job);
    } finally {
      await job.remove();
    }
  });
}

/** A dry run has exactly these reasons, and the command stops nothing for the same ones. */
async function refused(job: MovingTask, codes: readonly string[], reason: RegExp): Promise<void> {
  const dry = await reasonsAgainst(job, ...engine);
  assert.deepEqual(dry.codes, codes, dry.said);
  assert.match(dry.said, reason);
  const { status, stderr } = await migrate(job, ...engine);
  assert.notEqual(status, 0);
  assert.match(stderr, reason);
  assert.equal(await job.states(), 'RUNNING here, none there');
}

/** The move has failed, and the task goes on here. */
async function goesOnHere(job: MovingTask, status: number | null, stderr: string): Promise<void> {
  assert.notEqual(status, 0, stderr);
  assert.match(stderr, new RegExp(`${job.name}: did not move, and runs here: `));
  assert.equal(await job.states(), 'RUNNING here, none there');
  assert.match(await job.ask('here', 'verify'), /^verified /);
  await nothingLeft();
}

/** Exactly one host runs it, and the command has said which one. */
async function runsOnce(job: MovingTask, status: number | null, stderr: string): Promise<void> {
  const states = await job.states();
  assert.match(states, /^(RUNNING here, none there|none here, RUNNING there)$/, stderr);
  const where = states.startsWith('RUNNING') ? 'here' : 'there';
  assert.equal(status === 0, where === 'there', stderr);
  assert.match(await job.ask(where, 'verify'), /^verified /);
  process.stdout.write(`# ${job.name}: ${states}\n`);
}

taskTest('a target that cannot take it is told, and nothing stops', 'refused', async (job) => {
  const before = counter(await job.ask('here', 'status'));
  await refused(job, ['E_HOST'], /containerd: does not answer there: /);
  await startThere();
  await refused(job, ['E_IMAGE_MISSING'], /gpu-worker:latest: not there/);
  const [shim, hidden] = ['/usr/bin/containerd-shim-kfd-v2', '/usr/bin/hidden-shim'];
  await there(`mv ${shim} ${hidden}`);
  try {
    await refused(job, ['E_HOST', 'E_IMAGE_MISSING'], /does not find containerd-shim-kfd-v2/);
  } finally {
    await there(`mv ${hidden} ${shim}`);
  }
  assert.match(await job.ask('here', 'verify'), /^verified /);
  assert.ok(counter(await job.ask('here', 'status')) > before);
  await nothingLeft();
});

taskTest('a container moves with its GPU contents, files and image', 'moves', async (job) => {
  await job.sh('here', 'echo kept >/written');
  const before = counter(await job.ask('here', 'status'));
  const moved = await migrate(job, ...engine, '--with-image');
  assert.equal(moved.status, 0, moved.stderr);
  assert.match(moved.stdout, /runs on host-b: stood still for [\d.]+ m?s \(/);
  assert.doesNotMatch(moved.stderr, /memory:? is not sent ahead/);
  show(moved);
  assert.equal(await job.states(), 'none here, RUNNING there');
  assert.match(await job.ask('there', 'verify'), /^verified /);
  assert.ok(counter(await job.ask('there', 'status')) > before);
  assert.equal(await job.sh('there', 'cat /written'), 'kept');
  assert.deepEqual(await imagesOf('there'), [image]);
  await nothingLeft();
  await job.remove();
  await meetComplaintThere();
});

taskTest('a container moves at once, with nothing ahead', 'at-once', async (job) => {
  const before = counter(await job.ask('here', 'status'));
  const moved = await migrate(job, ...engine, '--precopy', '0');
  assert.equal(moved.status, 0, moved.stderr);
  show(moved);
  assert.equal(await job.states(), 'none here, RUNNING there');
  assert.match(await job.ask('there', 'verify'), /^verified /);
  assert.ok(counter(await job.ask('there', 'status')) > before);
  await nothingLeft();
});

taskTest('the network is cut while it is sent', 'cut', async (job) => {
  const { said, ended } = begin(job, ...engine);
  await until('a round', () => /round 1 of 1 is there/.test(said.stderr), 120);
  const status = await withoutNetwork(() => ended);
  await goesOnHere(job, status, said.stderr);
});

const killThere = () => there("pkill -KILL -f 'migrate-(target|contents)' || true");

taskTest('processes on the target are killed while contents go ahead', 'ahead', async (job) => {
  const { said, ended } = begin(job, ...engine, '--precopy', '2');
  await until('a round', () => /round 1 of 2 is there/.test(said.stderr), 120);
  await killThere();
  await goesOnHere(job, await ended, said.stderr);
});

taskTest('processes on the target are killed while the rest is sent', 'killed', async (job) => {
  const { said, ended } = begin(job, ...engine);
  await until('the sending', () => /is stopped; sending it/.test(said.stderr), 180);
  await killThere();
  // It may have got all of it and the lease by then.
  await runsOnce(job, await ended, said.stderr);
  await nothingLeft();
});

taskTest('containerd is killed there while it starts it', 'daemon', async (job) => {
  const { said, ended } = begin(job, ...engine);
  await until('the lease', () => /being started there/.test(said.stderr), 240);
  await there('pkill -KILL -x containerd');
  const status = await ended;
  await startThere();
  await runsOnce(job, status, said.stderr);
});

taskTest('the network is cut while it is restored there', 'doubt', async (job) => {
  const { said, ended } = begin(job, ...engine, '--lease', '120');
  await until('the lease', () => /being started there/.test(said.stderr), 240);
  await withoutNetwork(() =>
    until('a host that cannot be reached', () => /cannot reach host-b yet/.test(said.stderr), 120),
  );
  await runsOnce(job, await ended, said.stderr);
  await nothingLeft();
});

taskTest('a container moves to a GPU with other numbers', 'numbers', async (job) => {
  // A module that takes a dynamic major takes that of kfd. The first GPU is too small.
  const load = 'sh /repo/test/lab/load-gpu';
  const other = 'vram_mb=16,1024 first_slot=7';
  await there(`${load} none && modprobe uio && ${load} real ${other}`);
  try {
    const moved = await migrate(job, ...engine);
    assert.equal(moved.status, 0, moved.stderr);
    assert.equal(await job.states(), 'none here, RUNNING there');
    assert.match(await job.ask('there', 'verify'), /^verified /);
    const numbers = 'stat -c %t:%T /dev/kfd /dev/dri/renderD129';
    assert.equal(await job.sh('there', numbers), await there(numbers));
    await nothingLeft();
    await job.remove();
    await meetComplaintThere();
  } finally {
    await there(`${load} none && rmmod uio && ${load} real first_slot=5`);
    await stopThere();
  }
});

after(async () => {
  const { stdout } = await attempt('ssh', hostB, 'tail -n 5 /tmp/containerd.log');
  process.stdout.write(`${stdout.replaceAll(/^/gm, '# host-b: ')}\n`);
});
