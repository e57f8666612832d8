/** Programs that `check` knows by name: what they cannot do, on which host, and how that is mended. */

import assert from 'node:assert/strict';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { Run } from '../../src/os/exec.js';
import { isOlder, parseVersion } from '../../src/runtime/versions.js';
import { ableHost, check, programs } from './able-host.js';
import { fakeRun } from './cli-context.js';

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
  return { code, one: (name: string) => findings.find((one) => one.name === name) };
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
