/** Archives that CRI-O writes for a kubelet, and images that are made of them. The layout is that of CRI-O 1.34. */

import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { entriesOf, type Files, tarOf } from './archive-builder.js';
import { cliWithTar as run } from './cli-context.js';
import { layerType, layout } from './oci-image.js';
import { temporaryFolder } from './paths.js';
import { sample } from './restorable.js';
import { bentHost } from './sysfs-tree.js';

const id = '5f0a1b4e7c3d2a19';
const sandbox = '9e1c';

/** What a kubelet and CRI-O say of a container in its spec. */
const annotations = {
  'io.container.manager': 'cri-o',
  'io.kubernetes.cri-o.ContainerType': 'container',
  'io.kubernetes.cri-o.Metadata': '{"name":"trainer","attempt":0}',
  'io.kubernetes.cri-o.Annotations': '{"io.kubernetes.container.hash":"1a2b"}',
  'io.kubernetes.cri-o.SandboxID': sandbox,
  'io.kubernetes.cri-o.IP.0': '10.85.0.4',
  'io.kubernetes.cri-o.LogPath': '/var/log/pods/default_job_1/trainer/0.log',
  'io.kubernetes.pod.name': 'job',
  'io.kubernetes.pod.namespace': 'default',
};

/** Files of the pod, which are not below the container's own folder. */
const mounts = ['/etc/hosts', '/etc/resolv.conf', '/dev/termination-log'].map((destination) => ({
  destination,
  type: 'bind',
  source: `/var/run/containers/storage/overlay-containers/${sandbox}/userdata${destination}`,
}));

function archive(more: Files = {}): Files {
  const { 'spec.dump': spec, ...files } = sample();
  return {
    'stats-dump': 'x',
    'dump.log': '(00.000001) Version: 4.1.1\n',
    ...files,
    'config.dump': JSON.stringify({
      id,
      name: 'k8s_trainer_job_default_1_0',
      rootfsImage: 'localhost/worker:1',
      rootfsImageRef: '7d5a',
      rootfsImageName: 'localhost/worker@sha256:12',
      runtime: 'crun',
      createdTime: '2026-11-21T11:00:00Z',
      checkpointedTime: '2026-11-21T11:10:00Z',
      restored: false,
    }),
    'spec.dump': JSON.stringify({ ...JSON.parse(String(spec)), annotations, mounts }),
    'bind.mounts': JSON.stringify(
      mounts.map(({ destination, source }) => ({
        source,
        destination,
        file_type: 'file',
        permissions: 420,
      })),
    ),
    'rootfs-diff.tar': '',
    'deleted.files': '[]',
    'io.kubernetes.cri-o.LogPath': 'a line of the container\n',
    ...more,
  };
}

async function written(t: TestContext, files: Files): Promise<{ file: string; bytes: Buffer }> {
  const bytes = await tarOf(entriesOf(files));
  const name = 'checkpoint-job_default-trainer-2026-11-21T11:10:00Z.tar';
  const file = join(await temporaryFolder(t), name);
  await writeFile(file, bytes);
  return { file, bytes };
}

const steps = (file: string, name = 'trainer') => [
  ['buildah', 'from', '--name', 'checkpoint-work', 'scratch'],
  ['buildah', 'add', 'checkpoint-work', file, '/'],
  [
    'buildah',
    'config',
    `--annotation=io.kubernetes.cri-o.annotations.checkpoint.name=${name}`,
    'checkpoint-work',
  ],
  ['buildah', 'commit', '--rm', 'checkpoint-work', 'IMAGE'],
];

test('an archive of CRI-O is read, with the name that its pod gives the container', async (t) => {
  const { file } = await written(t, archive());
  const report = JSON.parse((await run('inspect', '--format', 'json', file)).stdout);
  assert.deepEqual(
    [report.container_name, report.image, report.id, report.runtime, report.engine],
    ['trainer', 'localhost/worker@sha256:12', id, 'crun', 'CRI-O'],
  );
  assert.equal(report.gpu_state, 'sealed');
  assert.equal(report.checkpointed, '2026-11-21T11:10:00Z');
  assert.equal((await run('verify', '--quiet', file)).code, 0);
  // As checkpointctl does: what the pod says is of no use then.
  const damaged = { ...annotations, 'io.kubernetes.cri-o.Metadata': '{' };
  const other = await written(
    t,
    archive({ 'spec.dump': JSON.stringify({ annotations: damaged }) }),
  );
  const { stdout } = await run('inspect', '--format', 'json', other.file);
  assert.equal(JSON.parse(stdout).container_name, 'k8s_trainer_job_default_1_0');
});

test('check names the way by an image and a pod, and what is not known of CRI-O', async (t) => {
  const { file, bytes } = await written(t, archive());
  const root = await bentHost(t, 'two-gpus', {});
  const check = (...args: string[]) => run('check', '--root', root, ...args);
  const report = JSON.parse((await check('--format', 'json', file)).stdout);
  assert.equal(report.restorable, true, 'the folders of its pod are no reason against it');
  assert.deepEqual(report.steps, steps(file));
  const { command, annotation, pod_image: image } = report;
  assert.deepEqual([command, annotation, image], [undefined, undefined, 'IMAGE']);
  assert.match(
    report.warnings.at(-1).message,
    /^CRI-O gives a restored container no devices of its pod/,
  );
  const { stdout } = await check(file);
  const line = steps(file)
    .map((words) => words.join(' '))
    .join(' && ');
  const end = `would restore here by: ${line}, and a pod whose container has the image IMAGE\n`;
  assert.ok(stdout.endsWith(end), stdout);
  assert.match(stdout, /annotation io\.kubernetes\.cri-o\.Devices/);

  const dir = join(await temporaryFolder(t), 'image');
  const layers = [{ bytes: gzipSync(bytes), mediaType: `${layerType}+gzip` }];
  await layout(dir, [{ layers, tag: 'job', annotations: {} }]);
  const ofImage = JSON.parse((await check('--format', 'json', `oci:${dir}:job`)).stdout);
  assert.deepEqual([ofImage.steps, ofImage.pod_image], [undefined, 'IMAGE']);
});

test('restore refuses it with the same way, and a name of the archive chooses no other words', async (t) => {
  const { file } = await written(t, archive());
  const root = await bentHost(t, 'two-gpus', {});
  const { code, stderr } = await run('restore', '--root', root, file);
  assert.equal(code, 2);
  assert.match(stderr, /of a kubelet: podman cannot restore it/);
  assert.match(
    stderr,
    /buildah commit --rm checkpoint-work IMAGE, and start a pod whose container/,
  );
  const evil = { ...annotations, 'io.kubernetes.cri-o.Metadata': '{"name":"a; reboot"}' };
  const other = await written(t, archive({ 'spec.dump': JSON.stringify({ annotations: evil }) }));
  const { stdout } = await run('check', '--root', root, '--format', 'json', other.file);
  assert.deepEqual(JSON.parse(stdout).steps, steps(other.file, 'NAME'));
});

test('device numbers are those of the source, because CRI-O changes none', async (t) => {
  const { file } = await written(t, archive());
  const root = await bentHost(t, 'two-gpus', { 'sys/class/kfd/kfd/dev': '511:0\n' });
  const { code, stdout } = await run('check', '--root', root, '--format', 'json', file);
  const report = JSON.parse(stdout);
  const moved = report.reasons.find(({ code }: { code: string }) => code === 'E_DEVICE_MOVED');
  assert.notEqual(code, 0);
  assert.match(moved?.hint ?? JSON.stringify(report.reasons), /CRI-O restores an image as it is/);
});
