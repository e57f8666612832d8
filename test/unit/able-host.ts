/** A host with GPUs on which the product is installed and configured, and what `check` finds there. */

import assert from 'node:assert/strict';
import { cp, mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { TestContext } from 'node:test';
import type { Finding } from '../../src/cli/checks/finding.js';
import { cli, fakeRun } from './cli-context.js';
import { elf } from './elf.js';
import { repository } from './paths.js';
import { bentHost } from './sysfs-tree.js';

export const prefix = '/usr/lib/kfd-checkpoint';
export const state = '/var/lib/kfd-checkpoint';
export const crunVersion = 'crun version 1.21\n+SYSTEMD +SELINUX +CRIU +YAJL\n';
export const programs = {
  'criu --version': 'Version: 4.1.1\n',
  'criu check': 'Looks good.\n',
  'crun --version': crunVersion,
  'runc --version': 'runc version 1.1.15+ds1\ncommit: 1\n',
  'podman --version': 'podman version 5.4.2\n',
  'ldconfig -p': '\tlibcriu.so.2 (libc6,x86-64) => /usr/lib/x86_64-linux-gnu/libcriu.so.2\n',
};

/** A host that is able, with GPUs from the fixture and the product installed, but not configured. */
export async function installedHost(t: TestContext): Promise<string> {
  const root = await bentHost(t, 'two-gpus', { 'sys/fs/cgroup/cgroup.controllers': 'memory\n' });
  const files = {
    'criu/kfd_checkpoint.so': elf('plugin'),
    'libexec/kfd-checkpoint-launch': elf('launcher'),
    'dist/hooks/precreate.js': '',
    'hooks/x': '',
  };
  for (const [path, data] of Object.entries(files)) {
    await mkdir(dirname(join(root, prefix, path)), { recursive: true });
    await writeFile(join(root, prefix, path), data);
  }
  for (const name of ['criu-action', 'precreate', '50-kfd-checkpoint.json']) {
    await cp(join(repository, 'hooks', name), join(root, prefix, 'hooks', name));
  }
  return root;
}

/** Such a host, configured for podman. */
export async function ableHost(t: TestContext): Promise<string> {
  const root = await installedHost(t);
  const configured = await cli(['configure', '--root', root]);
  assert.equal(configured.code, 0, configured.stderr);
  return root;
}

export async function check(root: string, over: Parameters<typeof cli>[1] = {}) {
  const result = await cli(['check', '--format', 'json', '--root', root], {
    run: fakeRun(programs),
    ...over,
  });
  const report = JSON.parse(result.stdout) as { able: boolean; findings: Finding[] };
  const status = (name: string) => report.findings.find((one) => one.name === name)?.status;
  return { ...result, ...report, status };
}
