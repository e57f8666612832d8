/** Tasks of containerd that move: the image of a record, our shim's checkpoint, the link for a restore. */

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { hasParent } from '../../shim/intercept/task-fields.js';
import { containerdImage, documentsOf } from '../../src/archive/containerd-image.js';
import { restoreTask, startTask } from '../../src/containerd/moving.js';
import { writeRecordImage } from '../../src/containerd/record-image.js';
import { checkpointTask, stockShim } from '../../src/containerd/shim-call.js';
import { saveMemory } from '../../src/containerd/task-memory.js';
import { linkedImage, withLinkedImage } from '../../src/criu/task-link.js';
import type { Run } from '../../src/os/exec.js';
import { bytesField, fieldsOf, numberField } from '../../src/protobuf.js';
import { ctrThat, record, task } from './containerd-world.js';
import { temporaryFolder } from './paths.js';
import { testServer } from './ttrpc-server.js';

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

test('our shim is told that an image has a parent', async (t) => {
  const { root, seen } = await hostWith(t, () => 0);
  const how = { image: '/image', work: '/work', ends: true };
  await checkpointTask(task, { ...how, hasParent: false }, root);
  await checkpointTask(task, { ...how, hasParent: true }, root);
  assert.deepEqual(seen.map(hasParent), [false, true]);
});

test('memory is saved by runc, and packed', async (t) => {
  const { root } = await hostWith(t, () => 0);
  const folder = join(root, 'kept');
  const archive = join(root, 'archive.tar');
  const asked: string[] = [];
  const saves = (status?: number) => {
    const run: Run = async (command, args) => {
      asked.push([command, ...args].join(' '));
      const stderr = 'time="1" level=info\nMemory tracking is not supported\n';
      return status === undefined ? undefined : { status, stdout: '', stderr };
    };
    return saveMemory(task, folder, archive, { root, run });
  };
  await assert.rejects(saves(0), { code: 'E_UNSUPPORTED_STATE', message: /another configuration/ });
  assert.deepEqual(asked, []);
  const bundle = join(root, 'run/containerd/io.containerd.runtime.v2.task/default/job');
  await writeFile(join(bundle, 'kfd-criu.conf'), '');
  await assert.rejects(saves(), { code: 'E_HOST', message: 'runc: is not there' });
  await assert.rejects(saves(1), { code: 'E_IO', message: /its memory: Memory tracking is not/ });
  assert.deepEqual(readdirSync(folder), [], 'the checkpoint makes folders of its own there');
  await saves(0);
  const places = `--image-path ${folder}/previous --work-path ${folder}/work`;
  const words = `--root ${root}/run/containerd/runc/default checkpoint --pre-dump ${places} job`;
  assert.equal(asked.at(-1), `runc ${words}`);
  assert.equal(execFileSync('tar', ['-tf', archive]).toString(), 'previous/\n');
  assert.deepEqual(readdirSync(folder), ['previous']);
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
  await writeFile(join(arrived, 'record.json'), JSON.stringify(record));
  const starts = () => startTask(task, arrived, folder, { ...here, run });
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
  await writeFile(join(arrived, 'record.json'), '{}');
  await assert.rejects(starts(), { code: 'E_HOST' });
});
