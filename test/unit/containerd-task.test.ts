/** Tasks of containerd that move: ctr's words, the image of a record, our shim's checkpoint, the link for a restore. */

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { containerdImage, documentsOf } from '../../src/archive/containerd-image.js';
import { attachedRun } from '../../src/containerd/attached.js';
import { ContainerdContainer } from '../../src/containerd/container.js';
import { Ctr } from '../../src/containerd/ctr.js';
import { restoreTask, startTask } from '../../src/containerd/moving.js';
import { writeRecordImage } from '../../src/containerd/record-image.js';
import { checkpointTask, stockShim } from '../../src/containerd/shim-call.js';
import { findsOurShim } from '../../src/containerd/shim-path.js';
import { linkedImage, withLinkedImage } from '../../src/criu/task-link.js';
import type { Run } from '../../src/os/exec.js';
import { bytesField, fieldsOf, numberField } from '../../src/protobuf.js';
import { temporaryFolder } from './paths.js';
import { testServer } from './ttrpc-server.js';

const task = { namespace: 'default', id: 'job' };
const record = {
  ID: 'job',
  Labels: { owner: 'me' },
  Image: 'docker.io/library/job:1',
  Runtime: { Name: 'io.containerd.runc.kfd.v2', Options: null },
  SnapshotKey: 'job',
  Snapshotter: 'overlayfs',
  Spec: { ociVersion: '1.1.0', mounts: [{ type: 'bind', source: '/srv', destination: '/data' }] },
};

/** Answers each call of ctr; a number is a failure. Remembers the words of all. */
function ctrThat(answers: (words: string) => string | number) {
  const asked: string[] = [];
  const run: Run = async (command, args) => {
    assert.deepEqual([command, ...args.slice(0, 2)], ['ctr', '--namespace', 'default']);
    const words = args.slice(2).join(' ');
    asked.push(words);
    const answer = answers(words);
    return typeof answer === 'number'
      ? { status: answer, stdout: '', stderr: 'ctr: container "job": not found\n' }
      : { status: 0, stdout: answer, stderr: '' };
  };
  return { asked, run };
}

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

async function layout(t: TestContext) {
  const folder = await temporaryFolder(t);
  const changes = join(folder, 'changes');
  await writeFile(changes, 'layer');
  await writeRecordImage(join(folder, 'record'), record, 'localhost/x:job', changes);
  return { folder: join(folder, 'record'), changes };
}

test('an image of the record has what containerd makes a container of', async (t) => {
  const { folder, changes } = await layout(t);
  assert.equal(existsSync(changes), false);
  const blob = (digest: string) => {
    const bytes = readFileSync(join(folder, 'blobs/sha256', digest.replace('sha256:', '')));
    assert.equal(`sha256:${createHash('sha256').update(bytes).digest('hex')}`, digest);
    return bytes;
  };
  const { manifests } = JSON.parse(readFileSync(join(folder, 'index.json'), 'utf8')) as {
    manifests: { digest: string; annotations: Record<string, string> }[];
  };
  assert.equal(manifests.length, 1);
  assert.equal(manifests[0]?.annotations['io.containerd.image.name'], 'localhost/x:job');
  const index = JSON.parse(blob(manifests[0]?.digest ?? '').toString()) as {
    manifests: { mediaType: string; digest: string; size: number }[];
    annotations: Record<string, string>;
  };
  assert.deepEqual(index.annotations, {
    'org.opencontainers.image.ref.name': record.Image,
    'io.containerd.checkpoint.runtime': record.Runtime.Name,
    'io.containerd.checkpoint.snapshotter': 'overlayfs',
  });
  const [spec, layer] = index.manifests;
  assert.equal(blob(layer?.digest ?? '').toString(), 'layer');
  assert.equal(layer?.size, 5);
  // With processes, a reader of such images understands it.
  const criu = {
    ...layer,
    mediaType: 'application/vnd.containerd.container.criu.checkpoint.criu.tar',
  };
  const whole = Buffer.from(
    JSON.stringify({ schemaVersion: 2, ...index, manifests: [criu, ...index.manifests] }),
  );
  const image = containerdImage(whole, 'index', 'x');
  assert.equal(image.hasChanges, true);
  const documents = documentsOf(image, blob(spec?.digest ?? ''), 'x');
  assert.deepEqual(JSON.parse(String(documents['spec.dump'])), record.Spec);
});

/** A host whose shim answers so to either version of the service. */
async function hostWith(t: TestContext, answering: (service: string) => number) {
  const root = await temporaryFolder(t);
  const seen: Buffer[] = [];
  const server = await testServer(t, ({ service, payload }) => {
    seen.push(payload);
    return { code: answering(service), message: 'no room' };
  });
  const bundle = join(root, 'run/containerd/io.containerd.runtime.v2.task/default/job');
  await mkdir(bundle, { recursive: true });
  await writeFile(join(bundle, 'kfd-shim'), `${server.path}\n`);
  await writeFile(`${server.path}.processes`, '11 12 13 14 /stock\n');
  return { root, seen };
}

test('our shim is asked for a checkpoint that ends the task', async (t) => {
  const { root, seen } = await hostWith(t, (service) => (service.includes('v3') ? 12 : 0));
  await checkpointTask(task, { image: '/image', work: '/work', ends: true }, root);
  assert.equal(seen.length, 2, 'of the other version where one is not known');
  const options = Buffer.concat([
    numberField(1, 1),
    numberField(5, 1),
    bytesField(8, '/image'),
    bytesField(9, '/work'),
  ]);
  const [id, path, any] = [...fieldsOf(seen[1] ?? Buffer.alloc(0))].map(({ value }) => value);
  assert.deepEqual([String(id), String(path)], ['job', '/image']);
  const [type, value] = [...fieldsOf(any as Buffer)].map((field) => field.value);
  assert.equal(String(type), 'containerd.runc.v1.CheckpointOptions');
  assert.deepEqual(value, options);
  assert.equal(await stockShim(task, root), '13-14');
});

test('why our shim makes no checkpoint', async (t) => {
  const how = { image: '/image', work: '/work', ends: true };
  const failing = await hostWith(t, () => 13);
  await assert.rejects(checkpointTask(task, how, failing.root), {
    code: 'E_IO',
    message: 'job: checkpoint: no room',
  });
  assert.equal(failing.seen.length, 1);
  const old = await hostWith(t, () => 12);
  await assert.rejects(checkpointTask(task, how, old.root), { code: 'E_HOST' });
  const other = { ...task, id: 'another' };
  await assert.rejects(checkpointTask(other, how, old.root), { code: 'E_NOT_FOUND' });
  assert.equal(await stockShim(other, old.root), undefined);
});

test('a link names the image of the next start, and goes with the command', async (t) => {
  const run = await temporaryFolder(t);
  const image = await temporaryFolder(t);
  assert.equal(linkedImage(task, run), undefined);
  await assert.rejects(
    withLinkedImage(
      task,
      image,
      async () => {
        assert.equal(linkedImage(task, run), image);
        assert.equal(linkedImage({ ...task, namespace: 'other' }, run), undefined);
        throw new Error('it failed');
      },
      run,
    ),
    /it failed/,
  );
  assert.deepEqual(readdirSync(run), []);
  // The command was killed, and the image has gone with the migration.
  const gone = () => assert.equal(linkedImage(task, run), undefined);
  await withLinkedImage(task, join(image, 'none'), async () => gone(), run);
});

test('a task comes back in place, and a container is made of its record', async (t) => {
  const folder = await temporaryFolder(t);
  const place = join(folder, 'run');
  const here = { root: folder, runFolder: place };
  const bundle = join(folder, 'run/containerd/io.containerd.runtime.v2.task/default/job');
  const links: (string | undefined)[] = [];
  const { asked, run: ctr } = ctrThat((words) => {
    if (/^(task start|container restore)/.test(words)) links.push(linkedImage(task, place));
    return '';
  });
  const run: Run = async (command, args, options) => {
    if (command !== 'tar') return ctr(command, args, options);
    await writeFile(args[3] ?? '', '');
    return { status: 0, stdout: '', stderr: '' };
  };
  const kept = join(folder, 'kept');
  await mkdir(join(kept, 'checkpoint'), { recursive: true });
  await restoreTask(task, kept, { ...here, run });
  assert.deepEqual(asked.splice(0), ['task rm job', 'task start --detach job']);
  const arrived = join(folder, 'before.0');
  await mkdir(join(arrived, 'checkpoint'), { recursive: true });
  await writeFile(join(arrived, 'changes.tar.gz'), 'layer');
  const starts = () => startTask(task, JSON.stringify(record), arrived, folder, { ...here, run });
  // Another shim has started it from its beginning.
  await assert.rejects(starts(), { code: 'E_HOST', message: /another shim than ours/ });
  asked.splice(0);
  links.pop();
  await writeFile(join(arrived, 'changes.tar.gz'), 'layer');
  await mkdir(bundle, { recursive: true });
  await writeFile(join(bundle, 'kfd-shim'), '/run/containerd/s/x\n');
  await starts();
  assert.deepEqual(asked.splice(0), [
    `image import --no-unpack ${join(folder, 'record.tar')}`,
    'container restore --rw job localhost/kfd-checkpoint-moves:job',
    'image rm localhost/kfd-checkpoint-moves:job',
    'container label job owner=me',
  ]);
  assert.deepEqual(links, [join(kept, 'checkpoint'), join(arrived, 'checkpoint')]);
  await assert.rejects(startTask(task, '{}', arrived, folder, { ...here, run }), {
    code: 'E_HOST',
  });
});
