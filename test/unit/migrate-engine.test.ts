/** What a migration asks of the engine of a container. */

import assert from 'node:assert/strict';
import { mkdir, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { Arrived, Engine } from '../../src/migrate/engine.js';
import { engineOf } from '../../src/migrate/engines.js';
import { memoryOf } from '../../src/migrate/question/container.js';
import { liveTask } from '../../src/migrate/question/task.js';
import type { Run } from '../../src/os/exec.js';
import { cli, fakeRun } from './cli-context.js';
import { temporaryFolder } from './paths.js';

const id = 'c0'.repeat(32);

function podman(outputs: Readonly<Record<string, string | number>> = {}) {
  const self = ['node', 'kfd-checkpoint'] as const;
  return engineOf(
    { id: '5c'.repeat(16), container: 'job', container_id: id },
    { root: '/r', run: fakeRun(outputs), self },
  );
}

const saved = ['podman', 'container', 'checkpoint'];
const exported = ['--compress', 'none', '--export', '/proc/self/fd/4', id];
const restored = ['node', 'kfd-checkpoint', 'restore', '--root', '/r', '--quiet'];

test('podman: checkpoints that end the container, and others', () => {
  const engine = podman();
  assert.deepEqual(engine.checkpoint(false), [...saved, ...exported]);
  assert.deepEqual(engine.checkpoint(true), [...saved, '--with-previous', ...exported]);
  assert.deepEqual(engine.round(), [...saved, '--leave-running', id]);
  const ahead = ['--pre-checkpoint', '--ignore-rootfs', '--ignore-volumes'];
  assert.deepEqual(engine.memoryAhead(), [...saved, ...ahead, ...exported]);
});

const startOf = ({ start }: Engine, arrived: Arrived) =>
  'words' in start ? start.words(arrived) : start.command(arrived);

test('podman: a restore in place, and one of what has arrived', async (t: TestContext) => {
  const engine = podman();
  const contents = ['--contents', '/kept/contents'];
  const json = ['--format', 'json'];
  assert.deepEqual(engine.bringBack(contents), [...restored, ...json, ...contents, id]);
  const folder = await temporaryFolder(t);
  const arrived = { folder, contents, choices: ['--gpu-map', '1=2'] };
  // Without the verb: one that waits takes them.
  const words = [...restored.slice(-3), ...json, '--gpu-map', '1=2', ...contents];
  const archive = join(folder, 'checkpoint.tar');
  assert.deepEqual(startOf(engine, arrived), [...words, archive]);
  const previous = join(folder, 'pre-checkpoint.tar');
  await writeFile(previous, '');
  assert.deepEqual(startOf(engine, arrived), [...words, archive, '--import-previous', previous]);
});

test('containerd: a verb of ours does each step', () => {
  const self = ['node', 'kfd-checkpoint'] as const;
  const record = { id: '5c'.repeat(16), container: 'job', container_id: id };
  const engine = engineOf(
    { ...record, engine: 'containerd', namespace: 'work' },
    { root: '/r', run: fakeRun({}), self },
  );
  const words = [
    ...self,
    'migrate-task',
    '--root',
    '/r',
    '--namespace',
    'work',
    '--format',
    'json',
  ];
  const kept = `/r/var/lib/kfd-checkpoint/kept/${record.id}/task`;
  assert.deepEqual([engine.kept, engine.dumpImage], [kept, `${kept}/checkpoint`]);
  assert.deepEqual(engine.checkpoint(false), [...words, 'save', 'job', kept]);
  assert.deepEqual(engine.checkpoint(true), [...words, 'save', '--previous', 'job', kept]);
  assert.deepEqual(engine.memoryAhead(), [...words, 'memory', 'job', kept]);
  assert.deepEqual(engine.round(), [...words, 'round', 'job', kept]);
  const contents = ['--contents', '/x/contents'];
  const restore = [...words, 'restore', ...contents, 'job', kept];
  assert.deepEqual(engine.bringBack(contents), restore);
  assert.deepEqual(startOf(engine, { folder: '/x', contents, choices: [] }), [
    ...words,
    'start',
    ...contents,
    'job',
    '/x/task',
    '/x',
  ]);
  const hostile = { ...record, container: '--force', engine: 'containerd' } as const;
  const setting = { root: '/r', run: fakeRun({}), self };
  assert.throws(() => engineOf(hostile, setting), { code: 'E_PROTOCOL' });
});

/** Runs `migrate` with options of containerd. */
const migrates = (...options: string[]) =>
  cli(['migrate', ...options, 'job', 'host-b'], { run: fakeRun({}) });

test('options that the engine has not are refused', async () => {
  const space = await migrates('--namespace', 'work');
  assert.match(space.stderr, /Error: --namespace: only containerd/);
  assert.match((await migrates('--engine', 'docker')).stderr, /docker/);
});

test('a task of containerd, and what stands in its way', async (t: TestContext) => {
  const root = await temporaryFolder(t);
  const record = {
    ID: 'job',
    Labels: {
      'io.cri-containerd.kind': 'container',
      'containerd.io/restart.status': 'running',
    },
    Image: 'job:1',
    Runtime: { Name: 'io.containerd.runc.v2', Options: { type_url: 'x', value: 'CAE=' } },
    SnapshotKey: 'job',
    Snapshotter: 'overlayfs',
    Spec: {
      process: { terminal: true },
      mounts: [
        { type: 'bind', source: '/srv' },
        { type: 'proc', source: 'proc' },
      ],
    },
  };
  const status = (text: string) => `TASK PID STATUS\njob 7 ${text}\n`;
  const run =
    (state: string): Run =>
    async (_, args) => {
      const words = args.slice(2).join(' ');
      const stdout =
        words === 'container info job'
          ? JSON.stringify(record)
          : words === 'task ls'
            ? status(state)
            : words === 'task ps job'
              ? 'PID INFO\n7 -\n'
              : words.startsWith('snapshot')
                ? 'KEY SIZE INODES\njob 8192 3\n'
                : 'REF TYPE DIGEST\n';
      return { status: 0, stdout, stderr: '' };
    };
  const task = { namespace: 'default', id: 'job' };
  await mkdir(join(root, 'proc/9'), { recursive: true });
  await writeFile(join(root, 'proc/9/cmdline'), 'ctr\0run\0--rm\0job:1\0job\0');
  const found = await liveTask(task, run('RUNNING'), root);
  assert.deepEqual([found.name, found.folders, found.pids], ['job', ['/srv'], [7]]);
  assert.match(found.id, /^[0-9a-f]{64}$/);
  const reasons = found.obstacles.map(({ message }) => message).join('; ');
  assert.match(reasons, /not by our shim.*options of its runtime.*not here any more/);
  assert.match(reasons, /started again by containerd.*has a terminal.*of a pod/);
  assert.match(reasons, /would be removed with its checkpoint: process 9 is a "ctr run --rm"/);
  assert.deepEqual([found.shim, found.changedBytes], ['io.containerd.runc.v2', 8192]);
  await assert.rejects(liveTask(task, run('STOPPED'), root), { code: 'E_USAGE' });
  const none = liveTask({ ...task, id: '../job' }, run('RUNNING'), root);
  await assert.rejects(none, { code: 'E_NOT_FOUND' });
});

test('memory of a container by the cgroup of its process', async (t: TestContext) => {
  const root = await temporaryFolder(t);
  const memory = (path: string) => join(root, 'sys/fs/cgroup', path);
  for (const [path, anon] of [
    ['default/job', 10],
    [`user.slice/libpod-${id}.scope`, 20],
  ] as const) {
    await mkdir(memory(path), { recursive: true });
    await writeFile(join(memory(path), 'memory.stat'), `anon ${anon}\nfile 5\nshmem 1\n`);
  }
  const inGroup = async (path: string) => {
    await mkdir(join(root, 'proc/7'), { recursive: true });
    await writeFile(join(root, 'proc/7/cgroup'), `0::/${path}\n`);
  };
  await inGroup('default/job');
  assert.equal(await memoryOf('default/job', 7, root), 11);
  await inGroup(`user.slice/libpod-${id}.scope/container`);
  assert.equal(await memoryOf(id, 7, root), 21);
  assert.equal(await memoryOf('default/other', 7, root), undefined);
});

test('podman: what a pre-checkpoint leaves in the bundle goes', async (t: TestContext) => {
  const bundle = await temporaryFolder(t);
  const left = join(bundle, 'pre-checkpoint');
  await mkdir(left);
  await podman({ 'podman container': `${bundle}\n` }).removeMemoryAhead();
  await assert.rejects(stat(left), { code: 'ENOENT' });
  await podman({ 'podman container': 125 }).removeMemoryAhead();
});
