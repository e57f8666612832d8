import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import {
  chmod,
  chown,
  cp,
  mkdir,
  readdir,
  readFile,
  readlink,
  rm,
  stat,
  symlink,
  truncate,
  writeFile,
} from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { diff } from '../../src/cli/diff.js';
import { cli } from './cli-context.js';
import { elf } from './elf.js';
import { repository, temporaryFolder } from './paths.js';

const prefix = '/usr/lib/kfd-checkpoint';
const conf = 'etc/criu/default.conf';
const hook = 'usr/share/containers/oci/hooks.d/50-kfd-checkpoint.json';
const config = 'etc/kfd-checkpoint/config.json';
const plugin = 'var/lib/kfd-checkpoint/criu/kfd_checkpoint.so';
const action = 'var/lib/kfd-checkpoint/criu-action';
const launcher = 'var/lib/kfd-checkpoint/kfd-checkpoint-launch';

/** Every byte there is, more than a mebibyte of it: not text in any encoding. */
const pluginBytes = elf(Buffer.from(Array.from({ length: (1 << 20) + 256 }, (_, i) => i & 0xff)));

/** A system with the package unpacked, and `files` beside it. */
async function system(
  t: TestContext,
  files: Record<string, string | Buffer> = {},
): Promise<string> {
  const root = await temporaryFolder(t);
  const at = (path: string) => join(root, prefix, path);
  await mkdir(at('criu'), { recursive: true });
  await writeFile(at('criu/kfd_checkpoint.so'), pluginBytes);
  await mkdir(at('libexec'));
  await writeFile(at('libexec/kfd-checkpoint-launch'), elf('launcher'));
  await mkdir(at('hooks'));
  for (const name of ['criu-action', 'precreate', '50-kfd-checkpoint.json']) {
    await cp(join(repository, 'hooks', name), at(`hooks/${name}`));
  }
  for (const [path, data] of Object.entries(files)) {
    await mkdir(dirname(join(root, path)), { recursive: true });
    await writeFile(join(root, path), data);
  }
  return root;
}

/** Every file outside the package, with its bytes. */
async function snapshot(root: string): Promise<Record<string, string>> {
  const entries = await readdir(root, { recursive: true, withFileTypes: true });
  const found: Record<string, string> = {};
  for (const entry of entries) {
    const path = join(entry.parentPath, entry.name).slice(root.length + 1);
    if (!entry.isFile() || path.startsWith(prefix.slice(1))) continue;
    found[path] = (await readFile(join(root, path))).toString('latin1');
  }
  return found;
}

test('configure writes five files, a second run changes none', async (t) => {
  const root = await system(t);
  const first = await cli(['configure', '--root', root]);
  assert.equal(first.code, 0, first.stderr);
  assert.equal(first.stdout.match(/^wrote/gm)?.length, 5);
  const files = await snapshot(root);
  // No defaults: those of a later release would never take effect.
  assert.deepEqual(Object.keys(files).sort(), [action, conf, hook, launcher, plugin].sort());
  assert.match(files[conf] ?? '', /^libdir \/var\/lib\/kfd-checkpoint\/criu$/m);
  assert.ok(pluginBytes.equals(await readFile(join(root, plugin))));
  assert.equal((await stat(join(root, plugin))).mode & 0o777, 0o644);
  for (const program of [action, launcher]) {
    assert.equal((await stat(join(root, program))).mode & 0o777, 0o755);
  }
  assert.doesNotMatch(Object.values(files).join(), /@[A-Z]+@/);
  const parsed = JSON.parse(files[hook] ?? '') as { hook: { path: string }; stages: string[] };
  assert.equal(parsed.hook.path, '/bin/sh');
  assert.deepEqual(parsed.stages, ['precreate']);
  const second = await cli(['configure', '--root', root]);
  assert.equal(second.stdout.match(/^unchanged/gm)?.length, 5);
  assert.deepEqual(await snapshot(root), files);
});

test('undo gives the system back, with all that was there before', async (t) => {
  const before = { [conf]: Buffer.from('ghost-limit 2M\n# caf\xe9', 'latin1'), 'etc/other': 'x' };
  const root = await system(t, before);
  const original = await snapshot(root);
  assert.equal((await cli(['configure', '--root', root])).code, 0);
  assert.notDeepEqual(await snapshot(root), original);
  const undone = await cli(['configure', '--root', root, '--undo']);
  assert.equal(undone.code, 0);
  assert.deepEqual(await snapshot(root), original);
  assert.match(undone.stdout, /^changed .*default\.conf\nremoved .*50-kfd/);
  await assert.rejects(stat(join(root, 'var/lib/kfd-checkpoint')), { code: 'ENOENT' });
  assert.ok((await stat(join(root, 'var/lib'))).isDirectory());
  assert.equal((await cli(['configure', '--root', root, '--undo'])).code, 0);
  assert.deepEqual(await snapshot(root), original);
});

test('undo takes the folders that configure made, and no folder with something else', async (t) => {
  const folders = ['etc/criu', 'usr/share/containers/oci/hooks.d', 'usr/share/containers'];
  const present = (root: string) => folders.filter((folder) => existsSync(join(root, folder)));
  const root = await system(t);
  assert.equal((await cli(['configure', '--root', root])).code, 0);
  assert.deepEqual(present(root), folders);
  assert.equal((await cli(['configure', '--root', root, '--undo'])).code, 0);
  assert.deepEqual(present(root), []);
  assert.ok(existsSync(join(root, 'usr/share')));

  const other = await system(t, { 'usr/share/containers/oci/hooks.d/other.json': '{}' });
  await mkdir(join(other, 'etc/criu'), { recursive: true });
  const undo = () => cli(['configure', '--root', other, '--undo']);
  assert.equal((await undo()).code, 0); // nothing of ours was there
  assert.ok(existsSync(join(other, 'etc/criu')));
  assert.equal((await cli(['configure', '--root', other])).code, 0);
  assert.equal((await undo()).code, 0);
  assert.deepEqual(present(other), folders.slice(1));
});

test('undo works when the package is already gone', async (t) => {
  const root = await system(t);
  await cli(['configure', '--root', root]);
  await rm(join(root, prefix), { recursive: true });
  assert.equal((await cli(['configure', '--root', root, '--undo'])).code, 0);
  assert.deepEqual(await snapshot(root), {});
});

test('what CRIU is told of is there before and after it is told', async (t) => {
  const order = (text: string) =>
    text
      .split('\n')
      .map((line) => line.split('/').at(-1) ?? '')
      .filter((name) =>
        /^(kfd_checkpoint\.so|kfd-checkpoint-launch|criu-action|default\.conf)$/.test(name),
      );
  const root = await system(t);
  const { stdout } = await cli(['configure', '--root', root]);
  const names = ['kfd_checkpoint.so', 'kfd-checkpoint-launch', 'criu-action', 'default.conf'];
  assert.deepEqual(order(stdout), names);
  const undone = await cli(['configure', '--root', root, '--undo']);
  assert.deepEqual(order(undone.stdout), [
    'default.conf',
    'kfd_checkpoint.so',
    'criu-action',
    'kfd-checkpoint-launch',
  ]);
});

test('configure mends our files: contents and permissions', async (t) => {
  const root = await system(t);
  await cli(['configure', '--root', root]);
  const files = await snapshot(root);
  await chmod(join(root, action), 0o600);
  await writeFile(join(root, plugin), 'old');
  await chown(join(root, launcher), 1, 1);
  const { stdout } = await cli(['configure', '--root', root]);
  assert.match(stdout, /^changed .*kfd_checkpoint\.so\nwrote .*-launch\nwrote .*criu-action$/m);
  assert.deepEqual(await snapshot(root), files);
  assert.equal((await stat(join(root, action))).mode & 0o777, 0o755);
  assert.equal((await stat(join(root, launcher))).uid, 0);
});

test('undo leaves what others put into our folder, and takes what is left of ours', async (t) => {
  const root = await system(t);
  await cli(['configure', '--root', root]);
  await rm(join(root, plugin));
  await writeFile(join(root, 'var/lib/kfd-checkpoint/other'), '');
  assert.equal((await cli(['configure', '--root', root, '--undo'])).code, 0);
  assert.deepEqual(await snapshot(root), { 'var/lib/kfd-checkpoint/other': '' });
  await assert.rejects(stat(dirname(join(root, plugin))), { code: 'ENOENT' });
});

test('the configuration is the operator’s: configure and undo keep it', async (t) => {
  const root = await system(t, { [config]: '{"compress":"zstd"}' });
  await cli(['configure', '--root', root]);
  await cli(['configure', '--root', root, '--undo']);
  assert.deepEqual(await snapshot(root), { [config]: '{"compress":"zstd"}' });
});

test('a dry run prints the differences and writes nothing', async (t) => {
  const root = await system(t, { [conf]: 'ghost-limit 2M\n' });
  const before = await snapshot(root);
  const { code, stdout } = await cli(['configure', '--dry-run', '--root', root]);
  assert.equal(code, 0);
  assert.match(
    stdout,
    /^--- \/etc\/criu\/default\.conf\n\+\+\+ \/etc\/criu\/default\.conf\n@@ -1,1 \+1,4 @@\n\+# BEGIN/m,
  );
  assert.match(stdout, /^\+libdir /m);
  assert.match(stdout, /^ ghost-limit 2M$/m);
  assert.match(stdout, /^--- \/dev\/null$/m);
  assert.match(stdout, /^Binary files \/dev\/null and \/var.*kfd_checkpoint\.so differ$/m);
  assert.doesNotMatch(stdout, /\0/);
  assert.deepEqual(await snapshot(root), before);
});

test('a foreign libdir stops everything before anything is written', async (t) => {
  const root = await system(t, { [conf]: 'libdir /usr/lib/criu\n' });
  const before = await snapshot(root);
  const { code, stderr } = await cli(['configure', '--root', root]);
  assert.equal(code, 1);
  assert.match(
    stderr,
    /^Error: \/etc\/criu\/default\.conf: already set: libdir \/usr\/lib\/criu\nHint: {2}remove/,
  );
  assert.deepEqual(await snapshot(root), before);
});

test('a folder in the place of a file is named, and nothing is written', async (t) => {
  const root = await system(t);
  await mkdir(join(root, conf), { recursive: true });
  const before = await snapshot(root);
  const { code, stderr } = await cli(['configure', '--root', root]);
  assert.equal(code, 1);
  assert.match(
    stderr,
    /^Error: .*\/etc\/criu\/default\.conf: not a regular file\nHint: {2}move it away/,
  );
  assert.deepEqual(await snapshot(root), before);
});

test('an incomplete or damaged installation is not configured', async (t) => {
  const cut = async (file: string) => truncate(file, (await stat(file)).size - 2);
  const empty = (file: string) => truncate(file, 0);
  for (const [path, damage] of [
    ['criu/kfd_checkpoint.so', rm],
    ['criu/kfd_checkpoint.so', cut],
    ['libexec/kfd-checkpoint-launch', empty],
    ['libexec/kfd-checkpoint-launch', (file: string) => writeFile(file, '#!/bin/sh\nexit 1\n')],
    ['hooks/precreate', rm],
    ['hooks/precreate', empty],
    ['hooks/criu-action', cut],
    ['hooks/criu-action', (file: string) => writeFile(file, 'garbage')],
    ['hooks/50-kfd-checkpoint.json', cut],
  ] as const) {
    const root = await system(t);
    await damage(join(root, prefix, path));
    const { code, stderr } = await cli(['configure', '--root', root]);
    assert.equal(code, 1, path);
    assert.ok(stderr.includes(`missing or damaged: ${prefix}/${path}\nHint`), stderr);
    assert.deepEqual(await snapshot(root), {});
  }
});

test('a prefix that a shell would not take as it is is refused', async (t) => {
  const root = await system(t);
  const quoting = ['/a"b', "/a'b", '/a$b', '/a`b', '/a;b', '/a&b', '/a\\b', '/a*b', '/a(b'];
  for (const bad of ['relative', '/with space', '/x\ny', '/a#b', '/', ...quoting]) {
    assert.equal((await cli(['configure', '--root', root, '--prefix', bad])).code, 2, bad);
  }
});

test('a symbolic link stays one, and modes stay', async (t) => {
  const root = await system(t, { 'etc/criu/real.conf': 'x\n' });
  await chmod(join(root, 'etc/criu/real.conf'), 0o600);
  await symlink('real.conf', join(root, conf));
  await cli(['configure', '--root', root]);
  assert.equal(await readlink(join(root, conf)), 'real.conf');
  const target = join(root, 'etc/criu/real.conf');
  assert.match(await readFile(target, 'utf8'), /BEGIN kfd-checkpoint/);
  assert.equal((await stat(target)).mode & 0o777, 0o600);
});

test('a diff of a binary file is one line', () => {
  assert.equal(diff('/f', 'a\0', 'b'), 'Binary files /f and /f differ\n');
  assert.equal(diff('/f', 'a', undefined).includes('Binary'), false);
  assert.equal(diff('/f', 'a\0\n\n', undefined), 'Binary files /f and /dev/null differ\n');
});

test('a diff shows one hunk with its context', () => {
  const old = 'a\nb\nc\nd\ne\nf\ng\nh\n';
  assert.equal(diff('/f', old, old), '');
  assert.equal(
    diff('/f', old, old.replace('e\n', 'E\nE2\n')),
    '--- /f\n+++ /f\n@@ -2,7 +2,8 @@\n b\n c\n d\n-e\n+E\n+E2\n f\n g\n h\n',
  );
  assert.equal(
    diff('/f', 'a', undefined),
    '--- /f\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-a\n\\ No newline at end of file\n',
  );
});
