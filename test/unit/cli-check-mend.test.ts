/** Hints of `check` are commands of the host's distribution. */

import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { mendOf } from '../../src/cli/checks/mend.js';
import { ableHost, check } from './able-host.js';
import { fakeRun } from './cli-context.js';
import { temporaryFolder } from './paths.js';

async function hostOf(t: TestContext, osRelease: string): Promise<string> {
  const root = await temporaryFolder(t);
  await mkdir(join(root, 'etc'));
  await writeFile(join(root, 'etc/os-release'), osRelease);
  return root;
}

test('each family of distributions has its commands', async (t) => {
  const cases: [osRelease: string, install: string, boot: RegExp][] = [
    ['ID=debian\nVERSION_ID="13"\n', 'apt install libcriu2', /"update-grub" and "reboot"$/],
    ['ID=ubuntu\nID_LIKE=debian\n', 'apt install libcriu2', /"update-grub"/],
    ['ID=fedora\n', 'dnf install criu-libs', /^run "grubby --update-kernel=ALL --args=x=1"/],
    ['ID="rocky"\nID_LIKE="rhel centos fedora"\n', 'dnf install criu-libs', /"grubby /],
    ["ID='opensuse-tumbleweed'\nID_LIKE='opensuse suse'\n", 'zypper install libcriu2', /"grub2-/],
  ];
  for (const [osRelease, install, boot] of cases) {
    const mend = await mendOf(await hostOf(t, osRelease));
    assert.equal(mend.install('libcriu', '4.0'), `run "${install}"; 4.0 is needed`);
    assert.match(mend.bootWith('x=1'), boot);
    assert.match(mend.bootWith('x=1'), /\bx=1\b/);
    assert.match(mend.reinstall, /^run ".* \.\/kfd-checkpoint.*" in the folder of the packages$/);
    assert.match(mend.install('node', '20'), /^run ".* \.\/kfd-checkpoint-node/);
  }
});

test('a distribution that nobody knows gets sentences', async (t) => {
  const unreadable = await temporaryFolder(t);
  await mkdir(join(unreadable, 'etc/os-release'), { recursive: true });
  for (const root of [await hostOf(t, 'ID=nixos\n'), await temporaryFolder(t), unreadable]) {
    const mend = await mendOf(root);
    assert.equal(mend.install('criu', '4.0 or later'), 'install criu 4.0 or later');
    assert.equal(mend.install('libcriu', '4.0'), 'install libcriu.so.2 4.0');
    assert.equal(mend.bootWith('x=1'), "boot with x=1 on the kernel's command line");
  }
});

test('Debian 12 has no CRIU that would do, so no command is named for it', async (t) => {
  const mend = await mendOf(await hostOf(t, 'ID=debian\nVERSION_ID="12"\n'));
  assert.match(mend.install('criu', '4.0 or later'), /^upgrade to Debian 13: /);
  assert.match(mend.install('crun', 'x'), /^upgrade to Debian 13: /);
  assert.match(mend.install('podman', '4.3 or later'), /^run "apt install podman"/);
});

test('a program that fails is not called missing', async (t) => {
  const root = await ableHost(t);
  const messages = async (outputs: Record<string, string | number>) =>
    new Map(
      (await check(root, { run: fakeRun(outputs) })).findings.map(({ name, message }) => [
        name,
        message,
      ]),
    );
  const failing = await messages({ 'criu --version': 1, 'runc --version': 'no digits' });
  assert.match(failing.get('criu') ?? '', /^--version fails: Error \(cr-check\.c:1\): no such/);
  assert.equal(failing.get('runc'), '--version prints no version');
  assert.equal(failing.get('podman'), 'not in PATH');
});
