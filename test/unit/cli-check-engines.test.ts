import assert from 'node:assert/strict';
import { appendFile, mkdir, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { Finding } from '../../src/cli/checks/finding.js';
import { check, installedHost, prefix, programs } from './able-host.js';
import { cli, errorIn, fakeRun } from './cli-context.js';

const main = 'etc/containerd/config.toml';
const dropIn = 'etc/containerd/conf.d/50-kfd-checkpoint.toml';
const imports = 'version = 3\nimports = ["/etc/containerd/conf.d/*.toml"]\n';
const shim = join(prefix, 'shim/containerd-shim-kfd-v2');
const version = { 'containerd --version': 'containerd github.com/containerd/v2 v2.1.9 1234\n' };
const { 'criu --version': criu, 'criu check': criuCheck, 'runc --version': runc } = programs;
/** Neither podman nor crun. */
const run = fakeRun({
  ...version,
  'criu --version': criu,
  'criu check': criuCheck,
  'runc --version': runc,
});

/** A host with containerd, on which nothing is configured. */
async function containerdHost(t: TestContext, ownFile = imports): Promise<string> {
  const root = await installedHost(t);
  for (const folder of ['usr/bin', 'etc/containerd', join(prefix, 'shim')]) {
    await mkdir(join(root, folder), { recursive: true });
  }
  await writeFile(join(root, shim), '#!/bin/sh\n', { mode: 0o755 });
  await symlink(shim, join(root, 'usr/bin/containerd-shim-kfd-v2'));
  await writeFile(join(root, main), ownFile);
  return root;
}

async function configure(root: string, ...engine: string[]): Promise<void> {
  const { code, stderr } = await cli(['configure', ...engine, '--root', root], { run });
  assert.equal(code, 0, stderr);
}

test('a host set up for containerd alone is able, and podman’s parts are not looked for', async (t) => {
  const root = await containerdHost(t);
  await configure(root, 'containerd');
  const { code, findings, status } = await check(root, { run });
  assert.deepEqual(
    findings.filter((finding) => finding.status !== 'ok'),
    [],
  );
  assert.equal(code, 0);
  for (const name of ['default.conf', 'hook', 'podman', 'crun'])
    assert.equal(status(name), undefined);
  for (const name of ['engines', 'plugin', 'containerd', 'runtime', 'shim', 'runc']) {
    assert.equal(status(name), 'ok', name);
  }
});

test('a host set up for podman alone is not asked for containerd', async (t) => {
  const root = await installedHost(t);
  await configure(root);
  const { findings, status } = await check(root);
  assert.equal(findings.find(({ name }) => name === 'engines')?.message, 'podman');
  for (const name of ['containerd', 'runtime', 'shim']) assert.equal(status(name), undefined);
});

test('a host set up for both is checked for both', async (t) => {
  const root = await containerdHost(t);
  await configure(root);
  await configure(root, 'containerd');
  const all = fakeRun({ ...programs, ...version });
  const { code, findings, status } = await check(root, { run: all });
  assert.equal(code, 0);
  assert.equal(findings.find(({ name }) => name === 'engines')?.message, 'podman, containerd');
  assert.equal(status('default.conf'), 'ok');
  assert.equal(status('runtime'), 'ok');
  // podman would do with crun, containerd does not.
  const noRunc = fakeRun({ ...programs, ...version, 'runc --version': 1 });
  assert.equal((await check(root, { run: noRunc })).status('runc'), 'fail');
});

test('a host where nothing is configured is told so, once', async (t) => {
  const root = await containerdHost(t);
  const { code, findings, stderr } = await check(root, { run });
  assert.equal(code, 3);
  const failed = findings.filter((finding) => finding.status !== 'ok');
  assert.deepEqual(
    failed.map(({ name }) => name),
    ['engines'],
  );
  const { message, hint } = errorIn(stderr);
  assert.equal(message, 'engines: no container engine is set up');
  assert.match(hint, /^run "kfd-checkpoint configure" .*"kfd-checkpoint configure containerd"/);
});

test('the parts of containerd are judged one by one', async (t) => {
  const cases: [string, Finding['status'], (root: string) => Promise<void>][] = [
    ['runtime', 'warn', (root) => writeFile(join(root, main), 'version = 3\n')],
    ['runtime', 'fail', (root) => writeFile(join(root, main), 'version = \n')],
    ['runtime', 'fail', (root) => writeFile(join(root, dropIn), 'version = 3\n[plugins\n')],
    ['runtime', 'warn', (root) => writeFile(join(root, dropIn), 'version = 3\n')],
    [
      'runtime',
      'warn',
      (root) => appendFile(join(root, main), "[plugins.'io.containerd.cri.v1.runtime']\n  x = 1\n"),
    ],
    [
      'runtime',
      'fail',
      (root) =>
        appendFile(
          join(root, dropIn),
          "  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.kfd.options]\n" +
            "    BinaryName = '/usr/bin/crun'\n",
        ),
    ],
    ['shim', 'fail', (root) => rm(join(root, shim))],
    ['shim', 'fail', (root) => writeFile(join(root, shim), '').then(() => chmodPlain(root))],
    ['shim', 'warn', (root) => rm(join(root, 'usr/bin/containerd-shim-kfd-v2'))],
    [
      'plugin',
      'fail',
      (root) => rm(join(root, 'var/lib/kfd-checkpoint/criu'), { recursive: true }),
    ],
  ];
  for (const [name, expected, change] of cases) {
    const root = await containerdHost(t);
    await configure(root, 'containerd');
    await change(root);
    const { status, code, findings } = await check(root, { run });
    assert.equal(status(name), expected, `${name} ${change}`);
    assert.equal(code, expected === 'fail' ? 3 : 0, JSON.stringify(findings));
  }
});

async function chmodPlain(root: string): Promise<void> {
  await rm(join(root, shim));
  await writeFile(join(root, shim), '', { mode: 0o644 });
}

test('containerd itself: missing, old, and with the lines in its own file', async (t) => {
  const lines = (type: string) =>
    "[plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.gpu]\n" +
    `  runtime_type = '${type}'\n`;
  const byPath = `${lines('io.containerd.runc.v2')}  runtime_path = '${shim}'\n`;
  for (const text of [byPath, lines('io.containerd.runc.kfd.v2'), lines('io.containerd.kfd.v2')]) {
    const root = await containerdHost(t, text);
    const { status, findings } = await check(root, { run });
    assert.equal(findings.find(({ name }) => name === 'engines')?.message, 'containerd');
    assert.equal(status('runtime'), 'ok');
  }
  const none = await check(await containerdHost(t, lines('io.containerd.runc.v2')), { run });
  assert.equal(none.status('engines'), 'fail');
  const root = await containerdHost(t, byPath);
  const missing = await check(root, { run: fakeRun({ ...programs }) });
  assert.equal(missing.status('containerd'), 'warn');
  const releases: [version: string, status: Finding['status'], message: string][] = [
    ['1.6.20', 'warn', '1.6.20: older than any tested'],
    ['1.7.24~ds1', 'ok', '1.7.24'],
    ['v2.0.5', 'warn', '2.0.5: only 1.7 and 2.1 to 2.3 were tried'],
    ['v2.1.9', 'ok', '2.1.9'],
    ['v2.3.4', 'ok', '2.3.4'],
    ['v2.4.0-beta.0', 'warn', '2.4.0: only 1.7 and 2.1 to 2.3 were tried'],
  ];
  for (const [text, status, message] of releases) {
    const release = fakeRun({ ...programs, 'containerd --version': `containerd x/v2 ${text} 1\n` });
    const { findings } = await check(root, { run: release });
    const finding = findings.find(({ name }) => name === 'containerd');
    assert.deepEqual([finding?.status, finding?.message], [status, message]);
  }
});
