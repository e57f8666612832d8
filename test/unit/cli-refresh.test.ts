/** `configure --refresh`, which packages run after an update. */

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { mkdir, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { ableHost, installedHost, prefix, state } from './able-host.js';
import { cli, fakeRun } from './cli-context.js';
import { elf } from './elf.js';

const plugin = 'criu/kfd_checkpoint.so';
const conf = 'etc/criu/default.conf';
const hook = 'usr/share/containers/oci/hooks.d/50-kfd-checkpoint.json';
const dropIn = 'etc/containerd/conf.d/50-kfd-checkpoint.toml';

const refresh = (root: string, ...more: string[]) =>
  cli(['configure', '--refresh', '--root', root, ...more]);

/** Installs another plugin below `root`, as an update does. */
async function update(root: string): Promise<Buffer> {
  const bytes = elf('a newer plugin');
  await writeFile(join(root, prefix, plugin), bytes);
  return bytes;
}

test('a refresh renews copies, hook and block of podman, and a second one changes nothing', async (t) => {
  const root = await ableHost(t);
  const block = await readFile(join(root, conf), 'utf8');
  const hookText = await readFile(join(root, hook), 'utf8');
  await writeFile(join(root, conf), block.replace('libdir ', 'libdir /old').concat('own line\n'));
  await writeFile(join(root, hook), hookText.replace('timeout -k 1 20', 'timeout 9'));
  const bytes = await update(root);
  const { code, stdout, stderr } = await refresh(root);
  assert.deepEqual([code, stderr], [0, '']);
  assert.equal(stdout.match(/^changed /gm)?.length, 3, stdout);
  assert.ok(bytes.equals(await readFile(join(root, state, plugin))));
  assert.equal(await readFile(join(root, conf), 'utf8'), `${block}own line\n`);
  assert.equal(await readFile(join(root, hook), 'utf8'), hookText);
  const again = await refresh(root);
  assert.equal(again.stdout.match(/^unchanged /gm)?.length, 5, again.stdout);
});

test('a refresh takes the hook away where CRI-O has come since', async (t) => {
  const root = await ableHost(t);
  await mkdir(join(root, 'etc/crio'));
  await writeFile(join(root, 'etc/crio/crio.conf'), '');
  const { code, stdout, stderr } = await refresh(root);
  assert.deepEqual([code, stderr], [0, '']);
  assert.match(stdout, /^removed .*50-kfd/m);
  assert.ok(!existsSync(join(root, hook)) && existsSync(join(root, conf)));
});

test('a refresh sets up no engine', async (t) => {
  const root = await installedHost(t);
  assert.deepEqual(await refresh(root), { code: 0, stdout: '', stderr: '' });
  assert.ok(!existsSync(join(root, state)) && !existsSync(join(root, hook)));
  await cli(['configure', '--root', root]);
  await cli(['configure', '--root', root, '--undo']);
  assert.deepEqual(await refresh(root), { code: 0, stdout: '', stderr: '' });
  assert.ok(!existsSync(join(root, state)) && !existsSync(join(root, conf)));
});

test('for containerd a refresh renews the copies, also those that are gone', async (t) => {
  const root = await installedHost(t);
  const run = fakeRun({ 'containerd --version': 'containerd v2.1.9' });
  assert.equal((await cli(['configure', 'containerd', '--root', root], { run })).code, 0);
  const bytes = await update(root);
  assert.match((await refresh(root)).stdout, /^changed .*kfd_checkpoint\.so$/m);
  assert.ok(bytes.equals(await readFile(join(root, state, plugin))));
  await rm(join(root, state), { recursive: true });
  assert.equal((await refresh(root)).stdout.match(/^wrote /gm)?.length, 3);
  assert.equal((await stat(join(root, state, 'criu-action'))).mode & 0o777, 0o755);
  assert.ok(!existsSync(join(root, conf)) && !existsSync(join(root, hook)));
  // A file with settings for Kubernetes has no drop-in: the copies alone say that there is something to renew.
  await rm(join(root, dropIn));
  await update(root);
  assert.equal((await refresh(root)).stdout.match(/^unchanged /gm)?.length, 3);
});

test('a damaged installation renews nothing, and a dry run only tells', async (t) => {
  const root = await ableHost(t);
  const before = await readFile(join(root, state, plugin));
  await update(root);
  assert.match((await refresh(root, '--dry-run')).stdout, /^Binary files .*kfd_checkpoint\.so/m);
  await truncate(join(root, prefix, plugin), 70);
  const { code, stderr } = await refresh(root);
  assert.equal(code, 1);
  assert.match(stderr, /missing or damaged: .*kfd_checkpoint\.so/);
  assert.ok(before.equals(await readFile(join(root, state, plugin))));
});

test('a refresh takes neither an engine nor --undo', async (t) => {
  const root = await ableHost(t);
  for (const words of [
    ['containerd', '--refresh'],
    ['podman', '--refresh'],
    ['--refresh', '--undo'],
  ]) {
    const { code, stderr } = await cli(['configure', '--root', root, ...words]);
    assert.equal(code, 2, words.join(' '));
    assert.match(stderr, /--refresh/);
  }
  assert.ok(existsSync(join(root, state, plugin)));
});
