/**
 * All that a process can hold of a GPU by the kernel's own calls (kfd-worker), on the drivers of two
 * kernels: compared by what the driver knows of it, by contents, and by what it does afterwards.
 *
 * Contents never tear: the GPU increments counters in every kind of memory, in one order and all the
 * time, also while CRIU stops and saves the process. Every checkpoint has to show them as they were
 * between two packets. `main.js held --checkpoints=N` makes N with each engine.
 */

import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { archivePath } from './support/archive.js';
import { until } from './support/command.js';
import { Container } from './support/container.js';
import { assertInOrder, type Counters, countersOf } from './support/counters.js';
import { assertExplained } from './support/explained.js';
import {
  behaveAs,
  gpuObjectsOf,
  kfdsim,
  loadGpu,
  loadWhenUnused,
  setStepTime,
} from './support/gpu.js';
import { assertNothingLeft, scenario } from './support/suite.js';

const holdings = ['--queues', '--events', '--memory', '--steps'];
const option = process.argv.find((word) => word.startsWith('--checkpoints='));
const checkpoints = Number(option?.split('=')[1] ?? 1);

/** A worker whose dispatch is under way, and what the driver knows of it. */
async function start(engine: Container['engine'], ...more: string[]) {
  const job = await Container.start({ engine, command: ['kfd-worker', ...holdings, ...more] });
  const begun = await until('the dispatch', () => stepsDone(job), 20);
  return { job, begun, objects: gpuObjectsOf(job.pid()) };
}

type Started = Awaited<ReturnType<typeof start>>;

/** Pages that the worker's dispatch has done. The worker has looked that each was done once. */
async function stepsDone(job: Container): Promise<number> {
  return Number(/ steps=(\d+)\//.exec(await job.control.ask('status'))?.[1]);
}

/** The driver knows the same of it, and the dispatch is in its middle as it was. */
async function assertSameObjects({ job, begun, objects }: Started): Promise<void> {
  const pid = job.pid();
  const same = () => gpuObjectsOf(pid).join('\n') === objects.join('\n');
  try {
    await until('the objects of the checkpoint', same, 10); // waits are begun anew, RESUME works on
  } catch {
    assert.deepEqual(gpuObjectsOf(pid), objects);
  }
  const steps = await stepsDone(job);
  assert.ok(steps >= begun && steps < 1024, `the dispatch had done ${begun} pages, now ${steps}`);
}

/** The dispatch comes to its end, everything else does what it has to; then nothing is other than before. */
async function assertWorks({ job, objects }: Started): Promise<void> {
  assert.match(await job.control.ask('verify'), / steps=1024\/1024/);
  assert.deepEqual(gpuObjectsOf(job.pid()), objects);
}

/** Saves a worker with counters. Returns what they were. */
async function save(job: Container, archive: string, ...flags: string[]): Promise<Counters> {
  rmSync(archive, { force: true });
  const saved = await job.checkpoint(...flags, '--compress', 'none', '--export', archive);
  assert.equal(saved.status, 0, saved.stderr);
  const counters = await countersOf(archive);
  assert.ok(counters.given > (counters.places[0] ?? 0), 'the GPU had nothing to do any more');
  return counters;
}

const counted = `counters in one order in ${checkpoints + 1} checkpoints`;

scenario(`all that the driver of 6.12 knows of a process; ${counted}`, async (lane) => {
  const { engine, meet } = lane;
  const archive = archivePath(engine, 'held.tar');
  const held = await start(engine, '--ordered');
  let before = 0;
  let between = 0;
  let newer = 0;
  for (let i = 0; i < checkpoints; i++) {
    const { places } = await save(held.job, archive, '--leave-running');
    // Podman saves files of /dev/shm after CRIU, while the container runs again.
    const [first, last] = assertInOrder(places.slice(0, -2));
    assert.ok(first > before, `checkpoint ${i}: the counter stands at ${before}`);
    before = first;
    if (last < first) between++;
    if ((places.at(-1) ?? 0) > last) newer++;
  }
  console.log(
    `# ${engine}: ${checkpoints} checkpoints, ${between} in the middle of a round, ` +
      `${newer} with files in /dev/shm that are newer than the rest`,
  );

  // The GPU of a container that ends stays paused: what podman saves afterwards fits, too.
  assertInOrder((await save(held.job, archive)).places);
  await held.job.remove();
  const restored = await held.job.restore('--import', archive);
  assert.equal(restored.status, 0, restored.stderr);
  await assertSameObjects(held);
  await meet(() => setStepTime(0)); // else the end of the dispatch is minutes away
  try {
    await assertWorks(held);
  } finally {
    await meet(() => setStepTime(100));
  }
});

scenario('what a process was told of a memory exception', async ({ engine }) => {
  const archive = archivePath(engine, 'held.tar');
  const job = await Container.start({ engine, command: ['kfd-worker', '--exception'] });
  assert.match(await job.control.ask('verify'), /^verified holds=exception/);
  const saved = await job.checkpoint('--compress', 'none', '--export', archive);
  assert.equal(saved.status, 0, saved.stderr);
  await job.remove();
  const restored = await job.restore('--import', archive);
  assert.equal(restored.status, 0, restored.stderr);
  assert.match(await job.control.ask('verify'), /^verified holds=exception/);
});

/** 7.3 finds doorbells by the GPU id that the process knows, which is not that of the GPU any more. */
const moved = 'all that the driver of 7.3 knows: not for 6.12, but for a GPU with another id';

/** No dispatch is under way: 7.3 loses those of gfx9 (kfd_mqd_manager_v9.c:mqd_manager_init_v9@7.3.4). */
async function startWithoutDispatch(engine: Container['engine']) {
  const command = ['kfd-worker', '--queues', '--events', '--memory', '--svm'];
  const job = await Container.start({ engine, command });
  return { job, objects: gpuObjectsOf(job.pid()) };
}

scenario(moved, async ({ engine, meet }) => {
  const archive = archivePath(engine, 'held.tar');
  await meet(() => loadGpu(kfdsim('behaves_as=7.3')));
  try {
    const held = await startWithoutDispatch(engine);
    const saved = await held.job.checkpoint('--compress', 'none', '--export', archive);
    assert.equal(saved.status, 0, saved.stderr);
    await held.job.remove();

    await meet(async () => {
      await assertNothingLeft();
      await loadGpu(kfdsim('gpu_id=7000'));
    });
    const refused = await held.job.restore('--import', archive);
    assert.notEqual(refused.status, 0, 'restored all the same');
    const reason = /kfd version: recorded on 1\.23, this host has 1\.17/;
    await assertExplained(held.job, 'restore', refused, reason);
    await held.job.remove();

    await meet(() => behaveAs('7.3'));
    const restored = await held.job.restore('--import', archive);
    assert.equal(restored.status, 0, restored.stderr);
    const same = () => gpuObjectsOf(held.job.pid()).join('\n') === held.objects.join('\n');
    await until('the objects of the checkpoint', same, 10);
    assert.match(await held.job.control.ask('verify'), /^verified /);
    assert.deepEqual(gpuObjectsOf(held.job.pid()), held.objects);
    await held.job.remove();
    await meet(assertNothingLeft);
  } finally {
    await meet(loadWhenUnused);
  }
});
