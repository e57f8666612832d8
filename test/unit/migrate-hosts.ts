/** Two hosts for a migration: a container that runs on one, and a stand-in for ssh that starts the other's side. */

import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { failureOf } from '../../src/cli/failure.js';
import { migrateCommand } from '../../src/cli/migrate.js';
import { ableHost, programs } from './able-host.js';
import { fakeNative, fakeRun } from './cli-context.js';
import { repository, temporaryFolder } from './paths.js';

export const containerId = 'c0'.repeat(32);
export const imageId = '1a'.repeat(32);
const folder = '/srv/data';

export const sourcePrograms = {
  ...programs,
  'podman container': JSON.stringify([
    {
      Id: containerId,
      Name: 'job',
      Image: imageId,
      ImageName: 'docker.io/library/job:1',
      OCIRuntime: 'crun',
      State: { Status: 'running', Pid: 4711 },
      Mounts: [{ Type: 'bind', Source: folder, Destination: '/data' }, { Type: 'tmpfs' }],
    },
  ]),
};

export const targetPrograms = {
  ...programs,
  'podman image': `${imageId}\n`,
  'podman container': 1,
};

async function write(root: string, files: Readonly<Record<string, string>>): Promise<void> {
  for (const [path, text] of Object.entries(files)) {
    await mkdir(join(root, path, '..'), { recursive: true });
    await writeFile(join(root, path), text);
  }
}

/** A host where the container runs, with 2 MiB on its first GPU. */
export async function sourceHost(t: TestContext): Promise<string> {
  const root = await ableHost(t);
  await write(root, {
    'proc/4712/cgroup': `0::/machine.slice/libpod-${containerId}.scope/container\n`,
    'proc/4999/cgroup': '0::/user.slice\n',
    'sys/class/kfd/kfd/proc/4712/vram_51966': '2097152\n',
    'sys/class/kfd/kfd/proc/4712/queues/1/type': '1\n',
    'sys/class/kfd/kfd/proc/4712/queues/1/gpuid': '51966\n',
    'sys/class/kfd/kfd/proc/4999/vram_51966': '8388608\n',
    [`sys/fs/cgroup/machine.slice/libpod-${containerId}.scope/memory.stat`]:
      'anon 4096\nfile 999999\nshmem 1024\n',
  });
  return root;
}

/** A host that can take it. `files`: changes of it. */
export async function targetHost(t: TestContext, files: Readonly<Record<string, string>> = {}) {
  const root = await ableHost(t);
  const folders = { [`${folder}/x`]: '', 'var/tmp/x': '' };
  await write(root, { 'proc/meminfo': 'MemAvailable: 1000000 kB\n', ...folders, ...files });
  return root;
}

/** Puts a script as `ssh` before all others into PATH. */
export async function standInSsh(t: TestContext, body: string): Promise<void> {
  const bin = await temporaryFolder(t);
  await writeFile(join(bin, 'ssh'), `#!/bin/sh\n${body}\n`);
  await chmod(join(bin, 'ssh'), 0o755);
  const before = process.env['PATH'];
  process.env['PATH'] = `${bin}:${before}`;
  t.after(() => {
    process.env['PATH'] = before;
  });
}

/** The same, as the target with these programs. */
export async function sshTo(
  t: TestContext,
  root: string,
  there: Readonly<Record<string, string | number>> = targetPrograms,
): Promise<void> {
  const program = join(repository, 'dist/test/unit/migrate-target-process.js');
  const setting = JSON.stringify({ root, programs: there });
  const words = `test "$*" = "${sshWords}" || exit 255`;
  const start = `TMPDIR= MIGRATE_TEST='${setting}' exec '${process.execPath}' '${program}'`;
  await standInSsh(t, `${words}\n${start}`);
}

export const sshWords =
  '-T -o ServerAliveInterval=5 -o ServerAliveCountMax=3 -- root@host-b kfd-checkpoint migrate-target';

/** Runs the verb. The error is what the program would tell. */
export async function migrate(
  root: string,
  args: readonly string[],
  outputs: Readonly<Record<string, string | number>> = sourcePrograms,
  host = 'root@host-b',
) {
  let stdout = '';
  const context = {
    out: (text: string) => {
      stdout += text;
    },
    err: () => undefined,
    isTerminal: false,
    columns: () => 200,
    run: fakeRun(outputs),
    runThrough: async () => 0,
    prefix: '/usr/lib/kfd-checkpoint',
    native: fakeNative,
    whyNotRoot: async () => undefined,
    signal: new AbortController().signal,
  };
  const command = migrateCommand(context).exitOverride();
  try {
    await command.parseAsync(['--root', root, ...args, '--', 'job', host], { from: 'user' });
    return { stdout, error: undefined };
  } catch (caught) {
    return { stdout, error: failureOf(caught) };
  }
}
