import assert from 'node:assert/strict';
import {
  chmod,
  cp,
  mkdir,
  readdir,
  readFile,
  readlink,
  rm,
  stat,
  symlink,
  writeFile,
} from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { diff } from '../../src/cli/diff.js';
import { parseConfig } from '../../src/config.js';
import { cli } from './cli-surroundings.js';
import { repository, temporaryFolder } from './paths.js';

const prefix = '/usr/lib/kfd-checkpoint';
const conf = 'etc/criu/default.conf';
const hook = 'usr/share/containers/oci/hooks.d/50-kfd-checkpoint.json';
const config = 'etc/kfd-checkpoint/config.json';

/** A system with the package unpacked, and `files` beside it. */
async function system(
  t: TestContext,
  files: Record<string, string | Buffer> = {},
): Promise<string> {
  const root = await temporaryFolder(t);
  const at = (path: string) => join(root, prefix, path);
  await mkdir(at('criu'), { recursive: true });
  await writeFile(at('criu/kfd_checkpoint.so'), '');
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

test('configure writes three files, a second run changes none', async (t) => {
  const root = await system(t);
  const first = await cli(['configure', '--root', root]);
  assert.equal(first.code, 0, first.stderr);
  assert.equal(first.stdout.match(/^wrote/gm)?.length, 3);
  const files = await snapshot(root);
  assert.deepEqual(Object.keys(files).sort(), [conf, config, hook].sort());
  assert.match(files[conf] ?? '', /^libdir \/usr\/lib\/kfd-checkpoint\/criu$/m);
  const parsed = JSON.parse(files[hook] ?? '') as { hook: { path: string }; stages: string[] };
  assert.equal(parsed.hook.path, `${prefix}/hooks/precreate`);
  assert.deepEqual(parsed.stages, ['precreate']);
  parseConfig(files[config] ?? '');
  const second = await cli(['configure', '--root', root]);
  assert.equal(second.stdout.match(/^unchanged/gm)?.length, 3);
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
  assert.equal((await cli(['configure', '--root', root, '--undo'])).code, 0);
  assert.deepEqual(await snapshot(root), original);
});

test('undo works when the package is already gone', async (t) => {
  const root = await system(t);
  await cli(['configure', '--root', root]);
  await rm(join(root, prefix), { recursive: true });
  assert.equal((await cli(['configure', '--root', root, '--undo'])).code, 0);
  assert.deepEqual(await snapshot(root), {});
});

test('an edited configuration is kept by configure and by undo', async (t) => {
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
    /^--- \/etc\/criu\/default\.conf\n\+\+\+ \/etc\/criu\/default\.conf\n@@ -1,1 \+1,5 @@\n\+# BEGIN/m,
  );
  assert.match(stdout, /^\+libdir /m);
  assert.match(stdout, /^ ghost-limit 2M$/m);
  assert.match(stdout, /^--- \/dev\/null$/m);
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

test('an incomplete installation is not configured: a dangling libdir breaks every dump', async (t) => {
  for (const [path, mend] of [
    ['criu/kfd_checkpoint.so', rm],
    ['hooks/precreate', rm],
    ['hooks/criu-action', (file: string) => chmod(file, 0o644)],
  ] as const) {
    // Root may execute only what has an execute bit, so the mode counts for root as well.
    const root = await system(t);
    await mend(join(root, prefix, path));
    const { code, stderr } = await cli(['configure', '--root', root]);
    assert.equal(code, 1);
    assert.ok(stderr.includes(`${prefix}/${path} missing`), stderr);
    assert.deepEqual(await snapshot(root), {});
  }
});

test('a prefix CRIU could not read is refused', async (t) => {
  const root = await system(t);
  for (const bad of ['relative', '/with space', '/x\ny', '/a#b', '/']) {
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

test('a diff shows one hunk with its surroundings', () => {
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
