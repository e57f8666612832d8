/** `configure containerd` on nodes of Kubernetes: containerd's own file, systemd's cgroups, annotations of pods. */

import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { parseContainerdConfig } from '../../src/runtime/containerd-config.js';
import { cli } from './cli-context.js';
import { configure, copies, dropIn, imports, main, system } from './containerd-system.js';

const cri = "[plugins.'io.containerd.cri.v1.runtime']\n  enable_selinux = false\n";
const systemd = `version = 3
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
  runtime_type = 'io.containerd.runc.v2'
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
    SystemdCgroup = true`;
const marks = /^# BEGIN kfd-checkpoint .*\n([\s\S]*)^# END kfd-checkpoint\n/m;

const text = (root: string, path: string) => readFileSync(join(root, path), 'utf8');
const kfd = (root: string, path = main) =>
  parseContainerdConfig(text(root, path)).runtimes.find(({ name }) => name === 'kfd');

test('a file with settings of its own gets the lines at its end, and undo takes them away again', async (t) => {
  for (const [before, release] of [
    [`version = 3\n${cri}`, 'v2.1.9'],
    [systemd, 'v2.1.9'],
    [`${imports}[plugins."io.containerd.grpc.v1.cri".cni]\n`, '1.7.24'],
    ['# Übernommen\nversion = 3\n', 'v2.1.9'], // it reads no drop-in
    [undefined, 'v2.1.9'],
  ] as const) {
    const root = await system(t, before);
    const { code, stderr } = await configure(root, release, '--edit');
    assert.deepEqual([code, stderr], [0, ''], before);
    assert.ok(!existsSync(join(root, dropIn)));
    const after = text(root, main);
    assert.ok(after.startsWith(before ?? ''), after);
    assert.match(after, marks);
    assert.equal(kfd(root)?.path, '/usr/lib/kfd-checkpoint/shim/containerd-shim-kfd-v2');
    const again = await configure(root, release, '--edit');
    assert.equal(again.stdout.match(/^unchanged/gm)?.length, 4, again.stdout);
    // What CRIU loads stays while containerd needs it, and an update renews it.
    await cli(['configure', '--root', root]);
    await cli(['configure', '--root', root, '--undo']);
    for (const copy of copies) assert.ok(existsSync(join(root, copy)), copy);
    const refreshed = await cli(['configure', '--root', root, '--refresh']);
    assert.equal(refreshed.stdout.match(/^unchanged/gm)?.length, 3, refreshed.stdout);
    await configure(root, release, '--undo');
    assert.equal(
      existsSync(join(root, main)) ? text(root, main).trimEnd() : undefined,
      before?.trimEnd(),
    );
    for (const copy of copies) assert.ok(!existsSync(join(root, copy)), copy);
  }
});

test('a drop-in that containerd reads is enough, and one that it does not read goes', async (t) => {
  const root = await system(t, `version = 3\nimports = ["/etc/containerd/conf.d/*.toml"]\n`);
  await configure(root, 'v2.1.9', '--edit');
  assert.ok(existsSync(join(root, dropIn)));
  assert.doesNotMatch(text(root, main), marks);
  const other = await system(t, 'version = 3\n');
  await configure(other, 'v2.1.9');
  assert.ok(existsSync(join(other, dropIn)));
  await configure(other, 'v2.1.9', '--edit');
  assert.ok(!existsSync(join(other, dropIn)));
  // Without the option the file is as it was.
  await configure(other, 'v2.1.9');
  assert.equal(text(other, main), 'version = 3\n');
});

test('lines of the administrator for our shim stay the only ones', async (t) => {
  const path = '/usr/lib/kfd-checkpoint/shim/containerd-shim-kfd-v2';
  const own = `version = 3
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.gpu]
  runtime_path = '${path}'
`;
  const root = await system(t, own);
  const { code, stderr } = await configure(root, 'v2.1.9', '--edit');
  assert.deepEqual([code, stderr, text(root, main)], [0, '', own]);
  // They may lack what was asked for.
  const asked = await configure(root, 'v2.1.9', '--edit', '--pod-annotations');
  assert.deepEqual([asked.code, text(root, main)], [0, own]);
  assert.match(
    asked.stderr,
    /^Note: the runtime "gpu" of .* is yours, and lacks pod_annotations\./,
  );
  const stock =
    "version = 3\n[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]\n";
  const other = await system(t, own.replace('version = 3\n', `${stock}  SystemdCgroup = true\n`));
  assert.match((await configure(other, 'v2.1.9', '--edit')).stderr, /lacks SystemdCgroup\./);
});

test('what cannot be added is refused before anything is written', async (t) => {
  for (const before of [
    "version = 3\nplugins = { 'io.containerd.cri.v1.runtime' = { enable_selinux = false } }\n",
    "version = 3\n[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.kfd]\nruntime_path = '/opt/other'\n",
    'version = 3\n# BEGIN kfd-checkpoint\n',
  ]) {
    const root = await system(t, before);
    const { code, stderr } = await configure(root, 'v2.1.9', '--edit');
    assert.equal(code, 1);
    assert.match(stderr, /our lines cannot be added|marks of our lines are damaged/);
    assert.equal(text(root, main), before);
    for (const copy of copies) assert.ok(!existsSync(join(root, copy)), copy);
  }
});

test('cgroups are made by systemd where the stock runtime lets it, in the file and in a drop-in', async (t) => {
  const root = await system(t, systemd);
  await configure(root, 'v2.1.9', '--edit');
  assert.equal(kfd(root)?.systemdCgroup, true);
  const without = await system(t, systemd.replace('true', 'false'));
  await configure(without, 'v2.1.9', '--edit');
  assert.equal(kfd(without)?.systemdCgroup, false);
  const printed = await configure(await system(t, systemd), 'v2.1.9');
  assert.match(printed.stderr, /^ {4}SystemdCgroup = true$/m);
});

test('containerd 2 with a file of version 2 gets lines of version 2, or it would not start', async (t) => {
  const root = await system(t, imports);
  await configure(root, 'v2.1.9');
  assert.match(text(root, dropIn), /^version = 2\n[\s\S]*io\.containerd\.grpc\.v1\.cri/);
  const edited = await system(t, 'version = 2\n[plugins."io.containerd.grpc.v1.cri"]\n');
  await configure(edited, 'v2.1.9', '--edit');
  const found = parseContainerdConfig(text(edited, main));
  assert.deepEqual(found.plugins, ['io.containerd.grpc.v1.cri']);
});

test('pods may name their image only where the administrator says so', async (t) => {
  const root = await system(t, imports);
  await configure(root, '1.7.24');
  assert.doesNotMatch(text(root, dropIn), /annotations/);
  await configure(root, '1.7.24', '--pod-annotations');
  const name = 'io.kfd-checkpoint.restore-from';
  assert.ok(text(root, dropIn).includes(`  pod_annotations = ['${name}', '${name}/*']\n`));
  for (const option of ['--edit', '--pod-annotations']) {
    const { code, stderr } = await cli(['configure', option, '--root', root]);
    assert.equal(code, 2);
    assert.match(stderr, /for containerd alone/);
  }
});
