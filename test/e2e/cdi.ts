/** Containers that get their GPU by a CDI name. The guest has the specification that AMD's toolkit would write. */

import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { archivePath } from './support/archive.js';
import { attempt, run, until } from './support/command.js';
import { Container, type Engine } from './support/container.js';
import { Containerd, haveNextRelease, nextRelease, shimsLeft, Task } from './support/containerd.js';
import { podLife } from './support/containerd-cri.js';
import { assertExplained } from './support/explained.js';
import { gpuWith, loadGpu, meetComplaint, pinnedEventsPage } from './support/gpu.js';
import { partTest } from './support/part.js';
import { assertNothingLeft, scenario } from './support/suite.js';

const specification = '/etc/cdi/amd.json';
const fourGpus = gpuWith('gpus=4');

/** Of each engine: the GPU that it starts with, and the one that it gets. */
const gpus: Readonly<Record<Engine, readonly [number, number]>> = { crun: [0, 1], runc: [2, 3] };

const names = (gpu: number) => [`card${gpu}`, `renderD${128 + gpu}`];

const deviceFolder = (pid: number) => `/proc/${pid}/root/dev/dri`;

/** Every node of the container's /dev/dri is one of GPU `gpu`, and both nodes of that GPU have their names. */
function assertNodes(pid: number, gpu: number, when: string): void {
  const folder = deviceFolder(pid);
  const found = readdirSync(folder);
  for (const name of names(gpu)) assert.ok(found.includes(name), `${when}: no ${name}`);
  for (const name of found) {
    const kind = name.replace(/\d+$/, '');
    const own = names(gpu).find((one) => one.startsWith(kind));
    const { rdev } = statSync(join(folder, name));
    assert.equal(rdev, statSync(`/dev/dri/${own}`).rdev, `${when}: ${name} is another GPU's`);
  }
}

/** Minors of the DRM nodes that the OCI runtime lets the container use. */
function allowed({ bundle }: Container): number[] {
  const spec = JSON.parse(readFileSync(join(bundle, 'config.json'), 'utf8')) as {
    linux: { resources: { devices: { allow: boolean; major?: number; minor?: number }[] } };
  };
  const rules = spec.linux.resources.devices.filter(({ allow, major }) => allow && major === 226);
  return [...new Set(rules.map(({ minor }) => minor ?? -1))].sort((a, b) => a - b);
}

function assertHas(job: Container, gpu: number, when: string): void {
  assertNodes(job.pid(), gpu, when);
  assert.deepEqual(allowed(job), [gpu, 128 + gpu], when);
}

async function saved(job: Container, name: string): Promise<string> {
  const archive = archivePath(job.engine, name);
  const outcome = await job.checkpoint('--compress', 'none', '--export', archive);
  assert.equal(outcome.status, 0, outcome.stderr);
  await job.remove();
  return archive;
}

async function restored(job: Container, archive: string, ...choice: string[]): Promise<void> {
  const outcome = await attempt('kfd-checkpoint', 'restore', '--quiet', ...choice, archive);
  assert.equal(outcome.status, 0, outcome.stderr);
  assert.match(await job.control.ask('verify'), /^verified bytes=2097152 barrier=completed/);
  await job.computesOn();
}

/** Podman finds the devices anew at a start. */
async function startedAgain(job: Container): Promise<number> {
  await run('podman', 'stop', '-t', '0', job.name);
  await run('podman', 'start', job.name);
  return until('its first process', async () => {
    const pid = Number(await run('podman', 'inspect', '-f', '{{.State.Pid}}', job.name));
    return pid > 0 ? pid : undefined;
  });
}

scenario(
  'CDI: with its name a container comes back, moves to another GPU, and starts there again',
  async ({ engine, meet }) => {
    const [first, second] = gpus[engine];
    const job = await Container.start({
      engine,
      devices: [`amd.com/gpu=${first}`],
      worker: ['--vram-mib', '2', '--pending-barrier'],
    });
    assertHas(job, first, 'at its start');
    const here = await saved(job, 'here.tar');
    const check = await run('kfd-checkpoint', 'check', here);
    assert.match(check, new RegExp(` amd\\.com/gpu=${first}$`, 'm'));
    assert.match(check, /would restore here by: podman container restore --import /);
    await run('podman', 'container', 'restore', '--import', here);
    assert.match(await job.control.ask('verify'), /^verified bytes=2097152 barrier=completed/);
    assertHas(job, first, 'after a restore by podman');

    await restored(job, await saved(job, 'there.tar'), '--gpus', `amd.com/gpu=${second}`);
    assertHas(job, second, 'after the move');
    assertNodes(await startedAgain(job), second, 'at a start after the move');
    assert.deepEqual(allowed(job), [second, 128 + second], 'at a start after the move');
    await job.remove();

    const map = `amd.com/gpu=${first}=amd.com/gpu=${second}`;
    await restored(job, here, '--gpu-map', map);
    assertHas(job, second, 'after a move by a map');
    const back = await saved(job, 'back.tar');
    await meet(() => rmSync(specification));
    await restored(job, back, '--gpus', `renderD${128 + first}`);
    assertHas(job, first, 'without a specification');
    assertNodes(await startedAgain(job), first, 'at a start without a specification');
    assert.deepEqual(allowed(job), [first, 128 + first], 'at a start without a specification');
    await job.remove();
    await meetComplaint(pinnedEventsPage);
    // The pages that it is about stay pinned. The specification comes back, too.
    await meet(() => loadGpu(fourGpus));
  },
  { gpu: fourGpus },
);

scenario(
  'CDI: an open card node is refused, and so is a restore on GPUs that do not suffice',
  async ({ engine }) => {
    const job = await Container.start({
      engine,
      devices: ['amd.com/gpu=all'],
      command: [
        'sh',
        '-c',
        'exec 9</dev/dri/card0; exec gpu-worker --vram-mib 2 --pending-barrier',
      ],
    });
    const outcome = await job.checkpoint();
    assert.notEqual(outcome.status, 0);
    await assertExplained(job, 'dump', outcome, /holds card0 open as descriptor 9: CRIU cannot/);
    assert.match(await job.control.ask('verify'), /^verified /);
    await job.remove();
    const closed = await Container.start({ engine, devices: ['amd.com/gpu=0'] });
    const archive = await saved(closed, 'closed.tar');
    const refused = await attempt('kfd-checkpoint', 'restore', '--gpus', 'amd.com/gpu=1', archive);
    assert.equal(refused.status, 3);
    assert.match(refused.stderr, /no CDI specification of this host has amd\.com\/gpu=1/);
  },
);

const images = '/tmp/cdi-images';

/** Ends the task with a checkpoint of it, and returns the folder. */
async function savedTask(task: Task): Promise<string> {
  const folder = join(images, task.id);
  mkdirSync(folder, { recursive: true });
  await run('ctr', 'task', 'checkpoint', '--exit', '--image-path', folder, task.id);
  await task.end();
  return folder;
}

/** A new container with these devices continues what `folder` has. */
async function allotted(
  folder: string,
  id: string,
  before: Task,
  gpu: number,
  devices: readonly string[],
): Promise<Task> {
  const task = new Task(id, before.control, devices);
  const annotation = ['--annotation', `io.kfd-checkpoint.restore-from=${folder}`];
  await run('ctr', ...task.runWithGpu(annotation, 'true'));
  assert.match(await task.control.ask('verify'), /^verified .*barrier=completed/);
  const pid = Number(/^\d+/m.exec(await run('ctr', 'task', 'ps', id))?.[0]);
  assertNodes(pid, gpu, id);
  assert.ok(!readdirSync(images).some((name) => name.startsWith('.')), 'a copy of the image stays');
  return task;
}

/** As a pod is given a GPU here, whatever it had there. */
async function otherGpus(): Promise<void> {
  const first = new Task('first', undefined, ['amd.com/gpu=0']);
  await run('ctr', ...first.runWithGpu([], 'gpu-worker', '--vram-mib', '16', '--pending-barrier'));
  await first.control.ready();
  const saved = await savedTask(first);
  const byName = await allotted(saved, 'by-name', first, 1, ['amd.com/gpu=1']);
  const again = await savedTask(byName);
  const nodes = ['/dev/kfd', '/dev/dri/renderD128', '/dev/dri/card0'];
  const byNodes = await allotted(again, 'by-nodes', first, 0, nodes);
  await byNodes.remove();
  await first.remove();
}

partTest('CDI: containerd', {}, async (suite) => {
  const skip = haveNextRelease ? false : 'there was no second containerd when the guest was made';
  await suite.test(
    'CDI: containers of ctr and of a pod are restored on the GPU that they are given',
    { skip },
    async () => {
      await loadGpu(gpuWith('gpus=2'));
      const containerd = await Containerd.start();
      try {
        await containerd.restart(nextRelease);
        await otherGpus();
        await podLife(containerd, {
          first: ['amd.com/gpu=0'],
          again: ['amd.com/gpu=1'],
          look: (pid) => assertNodes(pid, 1, 'in the pod'),
        });
        await until('the end of the shims', async () => (await shimsLeft()).length === 0, 20);
        await meetComplaint(pinnedEventsPage);
      } finally {
        await containerd.stop();
        rmSync(images, { recursive: true, force: true });
        await loadGpu();
      }
      await assertNothingLeft();
    },
  );
});
