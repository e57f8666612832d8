/** A container of containerd by ctr's words: its state, its end, who waits for it, and the shim that it would get. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { attachedRun } from '../../src/containerd/attached.js';
import { ContainerdContainer } from '../../src/containerd/container.js';
import { Ctr } from '../../src/containerd/ctr.js';
import { findsOurShim } from '../../src/containerd/shim-path.js';
import type { Run } from '../../src/os/exec.js';
import { ctrThat, record, task } from './containerd-world.js';
import { temporaryFolder } from './paths.js';

const listed = (status: string) =>
  `TASK    PID     STATUS\njobs    7    RUNNING\njob    71    ${status}\n`;

test('the state of a container by its task and its record', async () => {
  for (const [status, state] of [
    ['RUNNING', 'runs'],
    ['PAUSED', 'paused'],
    ['STOPPED', 'stopped'],
    ['CREATED', 'stopped'],
  ] as const) {
    const { run } = ctrThat(() => listed(status));
    assert.equal(await new ContainerdContainer(task, run, '/none').state(), state);
  }
  const without = (answer: string | number) =>
    ctrThat((words) => (words === 'task ls' ? 'TASK PID STATUS\n' : answer)).run;
  assert.equal(await new ContainerdContainer(task, without(1), '/none').state(), 'none');
  const there = without(JSON.stringify(record));
  assert.equal(await new ContainerdContainer(task, there, '/none').state(), 'stopped');
  // Nothing may be concluded from a shim that does not answer.
  const unknown = ctrThat(() => listed('UNKNOWN')).run;
  await assert.rejects(new ContainerdContainer(task, unknown, '/none').state(), { code: 'E_HOST' });
  const other = ctrThat(() => listed('DANCING')).run;
  await assert.rejects(new ContainerdContainer(task, other, '/none').state(), { code: 'E_HOST' });
});

test('a container that runs is not forgotten, and one that stays is told', async () => {
  const { asked, run } = ctrThat(() => listed('RUNNING'));
  const container = new ContainerdContainer(task, run, '/none');
  await assert.rejects(container.forget(), { code: 'E_HOST', message: 'job: runs again' });
  assert.deepEqual(asked, ['task ls']);
  await assert.rejects(container.pause(), { code: 'E_HOST' });
  assert.ok(asked.includes('task kill --all --signal SIGKILL job'));
  await assert.rejects(container.remove(), { code: 'E_HOST', message: 'job: cannot be removed' });
  const paused = new ContainerdContainer(task, ctrThat(() => listed('PAUSED')).run, '/none');
  await assert.rejects(paused.unpause(), { code: 'E_HOST', message: 'job: stays paused' });
});

/** The file by which the kernel kills a cgroup. */
async function killed(root: string, path: string): Promise<() => string> {
  const folder = join(root, 'sys/fs/cgroup', path);
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, 'cgroup.kill'), '');
  return () => readFileSync(join(folder, 'cgroup.kill'), 'utf8');
}

test('where containerd does not answer, the kernel kills what runs in the cgroup of the task', async (t) => {
  const root = await temporaryFolder(t);
  const bundle = join(root, 'run/containerd/io.containerd.runtime.v2.task/default/job');
  await mkdir(bundle, { recursive: true });
  const usual = await killed(root, 'default/job');
  const own = await killed(root, 'a.slice/a-b.slice/ctr-job.scope');
  const others = await killed(root, 'system.slice');
  const mute: Run = async () => ({ status: undefined, stdout: '', stderr: '' });
  const container = new ContainerdContainer(task, mute, root);
  const inGroup = (cgroupsPath: string) =>
    writeFile(join(bundle, 'config.json'), JSON.stringify({ linux: { cgroupsPath } }));
  await inGroup('a-b.slice:ctr:job');
  await assert.rejects(container.pause(), { code: 'E_TIMEOUT' });
  assert.deepEqual([usual(), own(), others()], ['1', '1', '']);
  await writeFile(join(root, 'sys/fs/cgroup/default/job/cgroup.kill'), '');
  // Others may be in it.
  await inGroup('/system.slice');
  await assert.rejects(container.remove(), { code: 'E_TIMEOUT' });
  assert.deepEqual([usual(), others()], ['1', '']);
});

test('the image of a record goes with the container, and one that can be paused is not killed', async (t) => {
  const root = await temporaryFolder(t);
  const kills = await killed(root, 'default/job');
  let status = 'RUNNING';
  const pauses = ctrThat((words) => {
    if (words === 'task pause job') status = 'PAUSED';
    return words === 'task ls' ? listed(status) : '';
  });
  await new ContainerdContainer(task, pauses.run, root).pause();
  assert.equal(kills(), '');
  const gone = ctrThat((words) => (words === 'task ls' ? 'TASK PID STATUS\n' : 1));
  await new ContainerdContainer(task, gone.run, root).remove();
  assert.ok(gone.asked.includes('image rm localhost/kfd-checkpoint-moves:job'));
});

test('what a root file system has beside its image', async () => {
  const of = (answer: string | number) =>
    new Ctr(ctrThat(() => answer).run, 'default').changedBytes(record);
  assert.equal(await of('KEY SIZE INODES\njob 8192 3\n'), 8192);
  assert.equal(await of('KEY SIZE INODES\njob 8.0 KiB 3\n'), undefined);
  assert.equal(await of(1), undefined);
});

test('where it has its contents', async () => {
  const of = (answer: string | number) =>
    new Ctr(ctrThat(() => answer).run, 'default').contentFolder();
  const plugin = (exports: string) =>
    `Type:       io.containerd.content.v1\nID:         content\n${exports}`;
  const root =
    'Exports:    \n             root     /var/lib/c d/io.containerd.content.v1.content\n';
  assert.equal(await of(plugin(root)), '/var/lib/c d/io.containerd.content.v1.content');
  assert.equal(await of(plugin('')), undefined);
  assert.equal(await of(1), undefined);
});

test('a "ctr run --rm" that waits for its task is seen', async (t) => {
  const root = await temporaryFolder(t);
  const command = async (...words: string[]) => {
    await mkdir(join(root, 'proc/71'), { recursive: true });
    await writeFile(join(root, 'proc/71/cmdline'), `${words.join('\0')}\0`);
    return attachedRun('job', root);
  };
  assert.equal(await attachedRun('job', root), undefined);
  assert.equal(await command('/usr/bin/ctr', '-n', 'x', 'run', '--rm', 'image', 'job', 'sh'), 71);
  assert.equal(await command('ctr', 'run', '-rm=true', '--tty', 'image', 'job'), 71);
  assert.equal(await command('ctr', 'run', '--rm=false', 'image', 'job'), undefined);
  assert.equal(await command('ctr', 'run', 'image', 'job', '--rm'), undefined);
  assert.equal(await command('ctr', 'run', '--rm', 'image', 'jobs'), undefined);
  assert.equal(await command('podman', 'run', '--rm', 'image', 'job'), undefined);
});

test('which shim containerd would start for a runtime', async (t) => {
  const root = await temporaryFolder(t);
  const program = async (path: string) => {
    await mkdir(join(root, path, '..'), { recursive: true });
    await writeFile(join(root, path), '', { mode: 0o755 });
  };
  const ours = 'io.containerd.runc.kfd.v2';
  const finds = (runtime: string) => findsOurShim(runtime, root);
  assert.equal(await finds(ours), false);
  await program('usr/bin/containerd-shim-kfd-v2');
  assert.deepEqual(await Promise.all([finds(ours), finds('io.containerd.runc.v2')]), [true, false]);
  assert.equal(await finds('/usr/bin/containerd-shim-kfd-v2'), true);
  // Ours under another name, and a daemon that looks elsewhere.
  await mkdir(join(root, 'opt'));
  await symlink('../usr/bin/containerd-shim-kfd-v2', join(root, 'opt/containerd-shim-runc-v2'));
  await mkdir(join(root, 'proc/71'), { recursive: true });
  await writeFile(join(root, 'proc/71/comm'), 'containerd\n');
  await writeFile(join(root, 'proc/71/environ'), 'A=1\0PATH=/sbin:/opt\0');
  await symlink('/srv/containerd', join(root, 'proc/71/exe'));
  assert.deepEqual(await Promise.all([finds(ours), finds('io.containerd.runc.v2')]), [false, true]);
  await program('srv/containerd-shim-kfd-v2');
  assert.equal(await finds(ours), true);
});

test('the digest of an image, and the processes of a task', async () => {
  const digest = 'ab'.repeat(32);
  const { run } = ctrThat((words) =>
    words.startsWith('image')
      ? `REF TYPE DIGEST SIZE\njob:1 application/x sha256:${digest} 3 MiB\n`
      : 'PID     INFO\n71      -\n72      -\n',
  );
  const ctr = new Ctr(run, 'default');
  assert.equal(await ctr.imageDigest('job:1'), digest);
  assert.equal(await ctr.imageDigest('job'), undefined);
  assert.deepEqual(await ctr.pids(task), [71, 72]);
});
