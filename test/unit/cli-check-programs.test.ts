/** Programs that `check` knows by name: what they cannot do, on which host, and how that is mended. */

import assert from 'node:assert/strict';
import { mkdir, rm, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { Run } from '../../src/os/exec.js';
import { isOlder, parseVersion } from '../../src/runtime/versions.js';
import { ableHost, check, programs } from './able-host.js';
import { cli, errorIn, fakeRun } from './cli-context.js';

type Outputs = Readonly<Record<string, string | number>>;

async function write(root: string, path: string, text: string): Promise<void> {
  await mkdir(dirname(join(root, path)), { recursive: true });
  await writeFile(join(root, path), text);
}

/** What is found on an able host that `change` has bent, by its name. */
async function found(
  t: TestContext,
  outputs: Outputs | Run = {},
  change: (root: string) => Promise<void> = async () => undefined,
) {
  const root = await ableHost(t);
  await write(root, 'etc/os-release', 'ID=debian\nVERSION_ID="13"\n');
  await change(root);
  const run = typeof outputs === 'function' ? outputs : fakeRun({ ...programs, ...outputs });
  const { findings, code } = await check(root, { run });
  const named = (name: string) => findings.filter((one) => one.name === name);
  return { code, named, one: (name: string) => named(name)[0] };
}

test('versions are compared number by number, and a missing part is 0', () => {
  const cases: [version: string, than: string, older: boolean][] = [
    ['4.2', '4.2.1', true],
    ['4.2.1', '4.2.1', false],
    ['4.10', '4.2.1', false],
    ['3.17.1', '4.0', true],
    ['4.1.1', '4.2', true],
    ['6.18.42', '7.1', true],
    ['7.1.0', '7.1', false],
  ];
  for (const [version, than, older] of cases) {
    const parsed = parseVersion(version);
    assert.ok(parsed);
    assert.equal(isOlder(parsed, than), older, `${version} ${than}`);
  }
});

const kernel = (release: string) => (root: string) =>
  write(root, 'proc/sys/kernel/osrelease', `${release}\n`);
const criu = (version: string, status: string | number) => ({
  'criu --version': `Version: ${version}\n`,
  'criu check': status,
});

test('CRIU before 4.2.1 on a kernel without UDP-Lite: the reason is named, not its symptom', async (t) => {
  for (const [version, release] of [
    ['4.1.1', '7.1.0-1-amd64'],
    ['4.2', '7.3.4+deb13-amd64'],
  ] as const) {
    const { one, code } = await found(t, criu(version, 1), kernel(release));
    const finding = one('criu check');
    assert.equal(finding?.status, 'fail');
    assert.match(
      finding?.message ?? '',
      /no UDP-Lite, .* from 4\.2\.1 on: every checkpoint fails$/,
    );
    assert.equal(finding?.hint, 'run "apt install criu"; 4.2.1 or later is needed');
    assert.equal(code, 3);
  }
});

test('a distribution may have mended such a CRIU: its own check tells', async (t) => {
  const mended = await found(t, criu('4.2', 'Looks good.\n'), kernel('7.2.13'));
  assert.equal(mended.one('criu check')?.status, 'warn');
  assert.match(mended.one('criu check')?.message ?? '', /^passed, but Linux 7\.1 and later/);
});

test('other pairs of CRIU and kernel are judged by CRIU alone', async (t) => {
  for (const [version, release] of [
    ['4.2.1', '7.1.0'],
    ['4.3', '8.0.1'],
    ['4.1.1', '6.18.42'],
    ['4.1.1', '7.0.9'],
  ] as const) {
    const good = await found(t, criu(version, 'Looks good.\n'), kernel(release));
    assert.deepEqual(
      [good.one('criu check')?.status, good.one('criu check')?.message],
      ['ok', 'passed'],
      release,
    );
    const bad = await found(t, criu(version, 1), kernel(release));
    assert.match(bad.one('criu check')?.message ?? '', /^Error \(cr-check/, release);
  }
});

test('podman 6 on cgroup v1 fails before it says its version', async (t) => {
  const others = fakeRun(programs);
  const ending: Run = async (command, args) =>
    command === 'podman'
      ? { status: 1, stdout: '', stderr: 'time="x" level=fatal msg="Cgroups v1 not supported"\n' }
      : others(command, args);
  const noCgroup2 = (root: string) => rm(join(root, 'sys/fs'), { recursive: true });
  const { one } = await found(t, ending, noCgroup2);
  assert.equal(one('podman')?.status, 'fail');
  assert.match(one('podman')?.message ?? '', /^this podman runs on cgroup v2 only/);
  assert.match(one('podman')?.hint ?? '', /systemd\.unified_cgroup_hierarchy=1 .*"update-grub"/);
  assert.equal(one('cgroup')?.status, 'warn');
  const six = { 'podman --version': 'podman version 6.0.1\n' };
  assert.equal((await found(t, six, noCgroup2)).one('podman')?.status, 'fail');
  assert.equal((await found(t, six)).one('podman')?.status, 'ok');
  assert.equal((await found(t, {}, noCgroup2)).one('podman')?.status, 'ok');
});

test('a kernel that does not track changed memory takes no pre-checkpoints', async (t) => {
  const asked: string[][] = [];
  const others = fakeRun(programs);
  const without: Run = async (command, args) => {
    if (!args.includes('--feature')) return others(command, args);
    asked.push([command, ...args]);
    return { status: 1, stdout: '', stderr: '' };
  };
  const { one, code } = await found(t, without);
  assert.deepEqual(asked, [['criu', 'check', '--feature', 'mem_dirty_track']]);
  assert.equal(one('pre-checkpoint')?.status, 'warn');
  assert.equal(code, 0);
  assert.equal((await found(t)).one('pre-checkpoint')?.status, 'ok');
});

test('rootless podman is told in one sentence', async (t) => {
  const root = await ableHost(t);
  for (const why of ['runs as user 1000', 'runs in a user namespace']) {
    const whyNotRoot = async () => why;
    const { code, findings, stderr } = await check(root, { whyNotRoot });
    assert.deepEqual([findings[0]?.name, findings[0]?.status, code], ['user', 'fail', 3]);
    const sentence = `user: ${why}: rootless podman can neither checkpoint nor restore`;
    assert.equal(errorIn(stderr).message, sentence);
    assert.match(errorIn(stderr).hint, /"sudo podman run".*"sudo kfd-checkpoint check"/);
    for (const [verb, ...args] of [
      ['checkpoint', '--parent', '/nowhere.tar', 'job', '--export', 'x.tar'],
      ['restore', '/nowhere.tar'],
      ['migrate', 'job', 'host-b'],
    ] as const) {
      const refused = await cli([verb, ...args, '--format', 'json'], {
        whyNotRoot,
        runThrough: async () => assert.fail('podman was run'),
      });
      // Before the archive is looked for.
      assert.equal(refused.code, 3);
      assert.match(refused.stderr, new RegExp(`${verb}: ${why}: rootless podman can neither`));
    }
  }
});

test('CRI-O is told, with what its configuration says of checkpoints', async (t) => {
  const version = { 'crio --version': 'crio version 1.34.14\nGitCommit: 1\n' };
  const configured = (files: Readonly<Record<string, string>>) => async (root: string) => {
    for (const [path, text] of Object.entries(files)) await write(root, `etc/crio/${path}`, text);
    await cli(['configure', '--root', root]);
  };
  const told = async (outputs: Outputs, files: Readonly<Record<string, string>>) => {
    const { one, code } = await found(t, outputs, configured(files));
    assert.equal(code, 0);
    const { status, message } = one('cri-o') ?? {};
    return status === undefined ? undefined : `${status}: ${message}`;
  };
  assert.equal(await told({}, {}), undefined);
  const isOn = 'ok: 1.34.14';
  const isOff = 'warn: 1.34.14: its checkpoints are switched off';
  assert.equal(await told(version, {}), isOn);
  const on = '[crio.runtime]\nenable_criu_support = true\n';
  const off = '[crio.runtime]\nenable_criu_support = false\n';
  const level = (text: string) =>
    `[crio.checkpoint_restore]\ncontainer_level_enabled = "${text}"\n`;
  assert.equal(await told(version, { 'crio.conf': off }), isOff);
  assert.equal(await told(version, { 'crio.conf': level('none') }), isOff);
  assert.equal(await told(version, { 'crio.conf': level('checkpoint_only') }), isOn);
  // Later files win, and others than *.conf are no configuration.
  const files = { 'crio.conf': on, 'crio.conf.d/10.conf': on, 'crio.conf.d/20.conf': off };
  assert.equal(await told(version, files), isOff);
  assert.equal(
    await told(version, { ...files, 'crio.conf.d/30.conf': on, 'crio.conf.d/40.old': off }),
    isOn,
  );
  const absent = await told({}, { 'crio.conf': on });
  assert.match(absent ?? '', /^warn: CRI-O is there, crio is not in PATH/);
  for (const damaged of ['[crio', '[crio.runtime]\nenable_criu_support = "yes"\n']) {
    const text = await told(version, { 'crio.conf': damaged });
    assert.match(text ?? '', /^warn: \/etc\/crio\/crio\.conf: /);
  }
});

test('engines and tools from snaps and Flatpak are named', async (t) => {
  const link =
    (...paths: string[]) =>
    async (root: string) => {
      for (const path of paths) {
        await mkdir(dirname(join(root, path)), { recursive: true });
        await symlink('/nowhere', join(root, path));
      }
    };
  const only = await found(t, {}, link('snap/bin/podman'));
  assert.equal(only.one('snap')?.status, 'fail');
  assert.match(only.one('snap')?.message ?? '', /^podman: a snap, /);
  assert.match(only.one('snap')?.hint ?? '', /"snap remove podman".*"apt install podman"/);
  const both = await found(t, {}, link('snap/bin/criu', 'usr/sbin/criu'));
  assert.deepEqual([both.one('snap')?.status, both.code], ['warn', 0]);
  const engines = await found(t, {}, link('snap/bin/docker', 'snap/bin/microk8s', 'snap/bin/ls'));
  assert.deepEqual(
    engines.named('snap').map(({ message, status }) => [message.split(':')[0], status]),
    [
      ['docker', 'warn'],
      ['microk8s', 'warn'],
    ],
  );
  const desktop = 'var/lib/flatpak/exports/bin/io.podman_desktop.PodmanDesktop';
  const flatpak = await found(t, {}, link(desktop, `${dirname(desktop)}/org.gimp.GIMP`));
  assert.deepEqual([flatpak.named('flatpak').length, flatpak.one('flatpak')?.status], [1, 'warn']);
  const inside = await found(t, {}, link('.flatpak-info'));
  assert.deepEqual([inside.one('flatpak')?.status, inside.code], ['fail', 3]);
  const none = await found(t);
  assert.deepEqual([none.one('snap'), none.one('flatpak')], [undefined, undefined]);
});
