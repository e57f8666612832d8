import assert from 'node:assert/strict';
import { appendFile, chmod, mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Finding } from '../../src/cli/checks/finding.js';
import { KfdError } from '../../src/errors.js';
import { parseCrun, parseVersion } from '../../src/runtime/versions.js';
import { ableHost, check, crunVersion, prefix, programs, state } from './able-host.js';
import { cli, errorIn, fakeNative, fakeRun } from './cli-context.js';
import { elf } from './elf.js';

test('an able host has only ok, and exit code 0', async (t) => {
  const { code, able, findings } = await check(await ableHost(t));
  assert.deepEqual(
    findings.filter((finding) => finding.status !== 'ok'),
    [],
  );
  assert.equal(code, 0);
  assert.equal(able, true);
  assert.equal(findings.filter(({ name }) => /^gpu \d+$/.test(name)).length, 2);
  assert.deepEqual(
    findings.filter(({ name }) => name === 'folder').map(({ message }) => message),
    ['/run/kfd-checkpoint', '/var/log/kfd-checkpoint'],
  );
});

test('every fail makes exit code 3, and every finding says how to mend it', async (t) => {
  const root = await ableHost(t);
  const { code, able, findings, stderr } = await check(root, { run: fakeRun({}) });
  assert.equal(code, 3);
  assert.equal(able, false);
  for (const finding of findings) {
    assert.equal(finding.hint !== undefined, finding.status !== 'ok', finding.name);
  }
  const { message, hint } = errorIn(stderr);
  assert.match(message, /^criu: not in PATH \(and \d+ more\)$/);
  assert.match(hint, /^install criu 4\.0/);
});

/** Every fail says which command mends it. */
function assertCommands(findings: readonly Finding[]): void {
  for (const { name, status, hint } of findings) {
    if (status === 'fail') assert.match(hint ?? '', /"[a-z].* .*"/, name);
  }
}

test('each program is judged by itself', async (t) => {
  const root = await ableHost(t);
  const cases: [string, Finding['status'], Record<string, string | number | undefined>][] = [
    ['criu', 'fail', { 'criu --version': 'Version: 3.17.1\n' }],
    ['criu check', 'fail', { 'criu check': 1 }],
    ['crun', 'warn', { 'crun --version': 'crun version 1.8.1\n+SYSTEMD\n' }],
    ['crun', 'warn', { 'ldconfig -p': '' }],
    ['crun', 'fail', { 'ldconfig -p': '', 'runc --version': undefined }],
    ['runc', 'warn', { 'runc --version': undefined }],
    ['podman', 'warn', { 'podman --version': 'podman version 4.2.0\n' }],
    ['podman', 'ok', { 'podman --version': 'podman version 4.3.1\n' }],
  ];
  await writeFile(join(root, 'etc/os-release'), 'ID=debian\nVERSION_ID="13"\n');
  for (const [name, expected, changes] of cases) {
    const outputs = Object.fromEntries(
      Object.entries({ ...programs, ...changes }).filter(([, output]) => output !== undefined),
    ) as Record<string, string | number>;
    const { status, findings } = await check(root, { run: fakeRun(outputs) });
    assert.equal(status(name), expected, `${name} ${JSON.stringify(changes)}`);
    assertCommands(findings);
  }
});

async function writeConfig(root: string, text: string): Promise<void> {
  await mkdir(join(root, 'etc/kfd-checkpoint'));
  await writeFile(join(root, 'etc/kfd-checkpoint/config.json'), text);
}

test('the installation is judged file by file', async (t) => {
  const cases: [string, Finding['status'], (root: string) => Promise<void>][] = [
    ['default.conf', 'fail', (root) => rm(join(root, 'etc/criu/default.conf'))],
    [
      'default.conf',
      'fail',
      (root) => writeFile(join(root, 'etc/criu/default.conf'), 'libdir /x\n'),
    ],
    ['plugin', 'fail', (root) => writeFile(join(root, state, 'criu/amdgpu_plugin.so'), '')],
    ['plugin', 'fail', (root) => writeFile(join(root, state, 'criu/other'), '')],
    ['plugin', 'fail', (root) => rm(join(root, state, 'criu/kfd_checkpoint.so'))],
    ['plugin', 'fail', (root) => rm(join(root, state, 'criu'), { recursive: true })],
    ['plugin', 'fail', (root) => writeFile(join(root, state, 'criu/kfd_checkpoint.so'), 'cut')],
    [
      'plugin',
      'warn',
      (root) => writeFile(join(root, state, 'criu/kfd_checkpoint.so'), elf('old')),
    ],
    [
      'plugin',
      'warn',
      (root) => writeFile(join(root, prefix, 'criu/kfd_checkpoint.so'), elf('new')),
    ],
    ['package', 'warn', (root) => rm(join(root, prefix, 'criu/kfd_checkpoint.so'))],
    ['package', 'warn', (root) => writeFile(join(root, prefix, 'hooks/criu-action'), '')],
    ['package', 'warn', (root) => rm(join(root, prefix, 'hooks'), { recursive: true })],
    ['launcher', 'fail', (root) => rm(join(root, state, 'kfd-checkpoint-launch'))],
    ['launcher', 'fail', (root) => writeFile(join(root, state, 'kfd-checkpoint-launch'), '#!')],
    [
      'launcher',
      'fail',
      (root) => writeFile(join(root, prefix, 'libexec/kfd-checkpoint-launch'), elf('new')),
    ],
    [
      'launcher',
      'fail',
      async (root) => {
        await rm(join(root, prefix, 'libexec'), { recursive: true });
        await writeFile(join(root, state, 'kfd-checkpoint-launch'), '');
      },
    ],
    ['action script', 'fail', (root) => chmod(join(root, state, 'criu-action'), 0o644)],
    ['action script', 'fail', (root) => writeFile(join(root, state, 'criu-action'), '#!/bin/sh\n')],
    ['hook', 'warn', (root) => rm(join(root, 'usr/share/containers'), { recursive: true })],
    [
      'hook',
      'fail',
      (root) =>
        writeFile(join(root, 'usr/share/containers/oci/hooks.d/50-kfd-checkpoint.json'), '{'),
    ],
    [
      'hook',
      'fail',
      async (root) => {
        await mkdir(join(root, 'etc/crio'));
        await writeFile(join(root, 'etc/crio/crio.conf'), '');
      },
    ],
    ['hook', 'warn', (root) => rm(join(root, prefix, 'dist/hooks/precreate.js'))],
    [
      'hook',
      'warn',
      (root) => appendFile(join(root, prefix, 'hooks/50-kfd-checkpoint.json'), '\n'),
    ],
    ['configuration', 'warn', (root) => writeConfig(root, '{"x":1}')],
    ['configuration', 'fail', (root) => writeConfig(root, '{"engine":1}')],
    ['cgroup', 'warn', (root) => rm(join(root, 'sys/fs'), { recursive: true })],
    ['kfd', 'fail', (root) => rm(join(root, 'dev/kfd'))],
    ['gpus', 'fail', (root) => rm(join(root, 'sys/class/kfd/kfd/topology'), { recursive: true })],
    ['gpu 1', 'fail', (root) => rm(join(root, 'sys/class/drm/renderD129'))],
  ];
  for (const [name, expected, change] of cases) {
    const root = await ableHost(t);
    await change(root);
    const { status, code, findings } = await check(root);
    assert.equal(status(name), expected, `${name} ${change}`);
    assert.equal(code, expected === 'fail' ? 3 : 0);
    assertCommands(findings);
  }
});

test('an older copy of the plugin is renewed by configure', async (t) => {
  const root = await ableHost(t);
  await writeFile(join(root, prefix, 'criu/kfd_checkpoint.so'), elf('new'));
  const { findings } = await check(root);
  const hint = findings.find((one) => one.name === 'plugin')?.hint;
  assert.equal(hint, 'run "kfd-checkpoint configure" again');
  await cli(['configure', '--root', root]);
  assert.equal((await check(root)).status('plugin'), 'ok');
});

test('an addon that does not load is a finding, not a crash', async (t) => {
  const failing = () => {
    throw new KfdError('E_NATIVE', 'native addon: cannot open', { hint: 'build it' });
  };
  const native = { ...fakeNative, verifier: failing, kfdVersion: failing };
  const { code, status, findings } = await check(await ableHost(t), { native });
  assert.equal(code, 3);
  assert.equal(status('addon'), 'fail');
  assert.equal(status('kfd'), 'fail');
  assert.equal(findings.find((one) => one.name === 'addon')?.hint, 'build it');
});

test('the table ends with what to do', async (t) => {
  const root = await ableHost(t);
  await rm(join(root, 'etc/criu/default.conf'));
  const { stdout } = await cli(['check', '--root', root], { run: fakeRun(programs) });
  assert.match(stdout, /^STATUS {2}CHECK +FINDING\n/);
  assert.match(
    stdout,
    /^fail {4}default\.conf +\/etc\/criu\/default\.conf: our lines are missing$/m,
  );
  assert.match(stdout, /\nTo fix:\ndefault\.conf: run "kfd-checkpoint configure"\n$/);
});

test('versions are read out of what programs print', () => {
  assert.deepEqual(parseVersion('podman version 5.4.2'), { text: '5.4.2', major: 5, minor: 4 });
  assert.deepEqual(parseVersion('Version: 4.0'), { text: '4.0', major: 4, minor: 0 });
  const containerd = 'containerd github.com/containerd/containerd/v2 v2.1.9 1234567.8\n';
  assert.deepEqual(parseVersion(containerd), { text: '2.1.9', major: 2, minor: 1 });
  assert.equal(parseVersion('no digits'), undefined);
  assert.equal(parseCrun(crunVersion)?.hasCriu, true);
  assert.equal(parseCrun('crun version 1.8.1\n-CRIU\n')?.hasCriu, false);
});
