/** Archives that containerd's CRI writes for a kubelet, and images that are made of them. */

import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { entriesOf, type Files, tarOf } from './archive-builder.js';
import { cliWithTar as run } from './cli-context.js';
import { layerType, layout } from './oci-image.js';
import { temporaryFolder } from './paths.js';
import { sample } from './restorable.js';
import { bentHost } from './sysfs-tree.js';

/** As the kubelet's archive is made an image of by buildah: docs of Kubernetes, "Restore". */
test('a kubelet’s archive, and buildah’s image of it, are read as podman’s are', async (t) => {
  const { 'rootfs-diff.tar': _, ...files } = sample();
  const kubelet: Files = {
    ...files,
    'config.dump': JSON.stringify({
      name: 'trainer',
      rootfsImageName: 'worker:1',
      runtime: 'kfd',
      createdTime: '2026-11-21T11:00:00Z',
    }),
    'spec.dump': JSON.stringify({
      ...JSON.parse(String(files['spec.dump'])),
      annotations: { 'io.kubernetes.cri.container-type': 'container' },
      // It goes with its pod, and the next pod has its own.
      mounts: [
        { destination: '/etc/hosts', type: 'bind', source: '/var/lib/kubelet/pods/1/hosts' },
      ],
    }),
    'status.dump': '{}',
    'container.log': '',
    'stats-dump': 'x',
    'dump.log': '',
  };
  const bytes = await tarOf(entriesOf(kubelet));
  const folder = await temporaryFolder(t);
  const file = join(folder, 'checkpoint-pod_default-trainer-2026-11-21T11:00:00Z.tar');
  await writeFile(file, bytes);
  const dir = join(folder, 'image');
  const annotations = {
    'io.kubernetes.cri-o.annotations.checkpoint.name': 'trainer',
    'org.criu.checkpoint.container.name': 'trainer',
  };
  const layers = [{ bytes: gzipSync(bytes), mediaType: `${layerType}+gzip` }];
  await layout(dir, [{ layers, tag: 'trainer', annotations }]);
  const root = await bentHost(t, 'two-gpus', {});
  for (const name of [file, `oci:${dir}`, `oci:${dir}:trainer`]) {
    const report = JSON.parse((await run('inspect', '--format', 'json', name)).stdout);
    assert.deepEqual(
      [report.container_name, report.image, report.engine, report.gpu_state],
      ['trainer', 'worker:1', 'containerd', 'sealed'],
    );
    assert.equal((await run('verify', '--quiet', name)).code, 0);
    const checked = await run('check', '--root', root, '--format', 'json', name);
    assert.equal(JSON.parse(checked.stdout).restorable, true, checked.stderr);
  }
  // A pod's container gets the numbers of its own GPUs.
  const other = await bentHost(t, 'two-gpus', { 'sys/class/kfd/kfd/dev': '511:0\n' });
  const moved = await run('check', '--root', other, '--format', 'json', file);
  const { restorable, needs_rewriting, moves } = JSON.parse(moved.stdout);
  assert.deepEqual([restorable, needs_rewriting, moves.length], [true, false, 1]);
  // podman cannot read it: a pod restores its image directory.
  const unpack = ['tar', '--force-local', '-C', 'FOLDER', '-xf', file, 'checkpoint'];
  const annotation = 'io.kfd-checkpoint.restore-from=FOLDER/checkpoint';
  const reportOf = async (name: string) =>
    JSON.parse((await run('check', '--root', root, '--format', 'json', name)).stdout);
  const report = await reportOf(file);
  assert.deepEqual(report.steps, [['mkdir', 'FOLDER'], unpack]);
  assert.deepEqual([report.command, report.annotation], [undefined, annotation]);
  const pod = `a pod with the annotation ${annotation}\n`;
  const table = await run('check', '--root', root, file);
  const told = `mkdir FOLDER && ${unpack.join(' ')}, and ${pod}`;
  assert.ok(table.stdout.endsWith(`would restore here by: ${told}`), table.stdout);
  for (const name of [file, `oci:${dir}`]) {
    const refused = await run('restore', '--root', root, name);
    assert.equal(refused.code, 2);
    assert.match(refused.stderr, /of a kubelet: podman cannot restore it/);
    assert.equal(refused.stderr.includes(unpack.join(' ')), name === file, refused.stderr);
  }
  // Of an image nobody knows the archive.
  const image = await reportOf(`oci:${dir}`);
  assert.deepEqual(
    [image.steps, image.command, image.annotation],
    [undefined, undefined, annotation],
  );
  const ofImage = await run('check', '--root', root, `oci:${dir}`);
  assert.ok(ofImage.stdout.endsWith(`would restore here by: ${pod}`), ofImage.stdout);
});
