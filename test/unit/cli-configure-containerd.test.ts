import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { cli } from './cli-context.js';
import { configure, copies, dropIn, imports, main, system } from './containerd-system.js';

test('the drop-in is in the words of the release that is there', async (t) => {
  // A file of version 4 takes a drop-in of version 3: `containerd config dump` of 2.3.4 has both.
  for (const [release, own, version, plugin] of [
    ['1.7.24~ds1', 2, 2, 'io.containerd.grpc.v1.cri'],
    ['v2.1.9', 3, 3, 'io.containerd.cri.v1.runtime'],
    ['v2.3.4', 4, 3, 'io.containerd.cri.v1.runtime'],
  ] as const) {
    const root = await system(t, imports.replace('version = 2', `version = ${own}`));
    const { code, stderr, stdout } = await configure(root, release);
    assert.deepEqual([code, stderr], [0, '']);
    assert.equal(stdout.match(/^wrote/gm)?.length, 4);
    assert.equal(
      readFileSync(join(root, dropIn), 'utf8'),
      `version = ${version}

[plugins.'${plugin}'.containerd.runtimes.kfd]
  runtime_type = 'io.containerd.runc.v2'
  runtime_path = '/usr/lib/kfd-checkpoint/shim/containerd-shim-kfd-v2'
`,
    );
    // CRIU's configuration of the host is not needed on this path.
    assert.ok(!existsSync(join(root, 'etc/criu/default.conf')));
    for (const copy of copies) assert.ok(existsSync(join(root, copy)), copy);
    const again = await configure(root, release);
    assert.equal(again.stdout.match(/^unchanged/gm)?.length, 4);
  }
});

test('a file with settings of its own gets no drop-in, and the user the lines for it', async (t) => {
  for (const table of [
    '[plugins."io.containerd.grpc.v1.cri".cni]\n  bin_dir = "/usr/lib/cni"\n',
    "  [ plugins . 'io.containerd.grpc.v1.cri' ]\n",
    '[plugins."io.containerd.grpc.v1.cri"]',
    '[plugins]\n  "io.containerd.grpc.v1.cri".sandbox_image = "pause:3.9"\n',
    '[plugins]\n  [plugins."io.containerd.grpc.v1.cri".cni]\n    bin_dir = "/usr/lib/cni"\n',
    '\nplugins."io.containerd.grpc.v1.cri".sandbox_image = "pause:3.9"\n',
    "plugins = { 'io.containerd.grpc.v1.cri' = { sandbox_image = 'pause:3.9' } }\n",
  ]) {
    const root = await system(t, `${imports}${table}`);
    const { code, stderr } = await configure(root, '1.7.24');
    assert.equal(code, 0);
    assert.match(stderr, /^Note: .*config\.toml has settings for Kubernetes/);
    assert.match(
      stderr,
      /^\[plugins\.'io\.containerd\.grpc\.v1\.cri'\.containerd\.runtimes\.kfd\]$/m,
    );
    assert.ok(!existsSync(join(root, dropIn)));
    for (const copy of copies) assert.ok(existsSync(join(root, copy)), copy);
    assert.equal(readFileSync(join(root, main), 'utf8'), `${imports}${table}`);
  }
});

test('what makes containerd read the drop-in is told when it is missing', async (t) => {
  for (const ownFile of [
    undefined,
    'version = 2\n',
    '# imports = ["/etc/containerd/conf.d/*.toml"]\n',
  ]) {
    const root = await system(t, ownFile);
    const { code, stderr } = await configure(root, '1.7.24');
    assert.equal(code, 0);
    assert.match(stderr, /^imports = \["\/etc\/containerd\/conf\.d\/\*\.toml"\]$/m);
  }
});

test('text that only looks like settings does not keep the drop-in away', async (t) => {
  for (const text of [
    '# [plugins."io.containerd.grpc.v1.cri"]\n',
    '[plugins."io.containerd.grpc.v1.cri-x"]\n',
    '[x]\nnote = """\n[plugins."io.containerd.grpc.v1.cri"]\n"""\n',
    '[x]\n[y.plugins."io.containerd.grpc.v1.cri"]\nlarge = 9223372036854775807\n',
  ]) {
    const root = await system(t, `\ufeff${imports}${text}`);
    const { code, stderr } = await configure(root, '1.7.24');
    assert.deepEqual([code, stderr], [0, ''], text);
    assert.ok(existsSync(join(root, dropIn)));
  }
});

test('a file that names the drop-in itself needs no advice', async (t) => {
  const root = await system(t, `imports = [\n  '/${dropIn}', # ours\n]\n`);
  assert.equal((await configure(root, '1.7.24')).stderr, '');
});

test('a file that is not TOML is refused before anything is written', async (t) => {
  const root = await system(t, 'imports = [\n[plugins]\n');
  const { code, stderr } = await configure(root, '1.7.24');
  assert.equal(code, 1);
  assert.match(stderr, /^Error: \/etc\/containerd\/config\.toml: Invalid TOML/);
  assert.match(stderr, /^Hint: {2}correct the file/m);
  assert.ok(!existsSync(join(root, dropIn)));
  for (const copy of copies) assert.ok(!existsSync(join(root, copy)), copy);
});

test('undo takes it back, and what CRIU loads only where podman does not need it', async (t) => {
  const root = await system(t, imports);
  await configure(root, '1.7.24');
  await cli(['configure', '--root', root]);
  await configure(root, '1.7.24', '--undo');
  assert.ok(!existsSync(join(root, dropIn)) && !existsSync(dirname(join(root, dropIn))));
  for (const copy of copies) assert.ok(existsSync(join(root, copy)), 'podman needs it');

  await configure(root, '1.7.24');
  await cli(['configure', 'podman', '--root', root, '--undo']);
  for (const copy of copies) assert.ok(existsSync(join(root, copy)), 'containerd needs it');
  await configure(root, '1.7.24', '--undo');
  assert.ok(!existsSync(join(root, 'var/lib/kfd-checkpoint')));
});

test('a dry run writes nothing; without containerd its release has to be named', async (t) => {
  const root = await system(t, imports);
  const dry = await configure(root, '1.7.24', '--dry-run');
  assert.match(dry.stdout, /^\+ {2}runtime_path = /m);
  assert.ok(!existsSync(join(root, dropIn)));
  const nameless = await cli(['configure', 'containerd', '--root', root]);
  assert.equal(nameless.code, 2);
  assert.match(nameless.stderr, /--containerd 1\.7/);
  const named = await cli(['configure', 'containerd', '--root', root, '--containerd', '2.2']);
  assert.equal(named.code, 0, named.stderr);
  const other = await cli(['configure', 'docker', '--root', root]);
  assert.equal(other.code, 2);
});
