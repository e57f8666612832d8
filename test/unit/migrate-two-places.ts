/**
 * Two hosts on which the verb and all that it starts run as processes: stand-ins for ssh and podman, the rest as it is.
 */

import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, constants, existsSync, openSync, readdirSync, readFileSync } from 'node:fs';
import { chmod, mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { native } from '../../src/native.js';
import { entriesOf, tarOf, unpackTo } from './archive-builder.js';
import { containerId, imageId, sourceHost, sourcePrograms, targetHost } from './migrate-hosts.js';
import { repository, temporaryFolder } from './paths.js';
import { sample } from './restorable.js';

const mute = join(repository, 'dist/test/unit/migrate-mute.js');
const program = join(repository, 'dist/test/unit/migrate-program.js');

export interface Place {
  readonly root: string;
  readonly podman: string;
}

export interface Hosts {
  readonly source: Place;
  readonly target: Place;
  readonly env: NodeJS.ProcessEnv;
}

async function place(t: TestContext, root: string): Promise<Place> {
  const podman = await temporaryFolder(t);
  await mkdir(join(root, 'proc/sys/kernel/random'), { recursive: true });
  await writeFile(join(root, 'proc/sys/kernel/random/boot_id'), 'one\n');
  await setUptime({ root, podman }, 1000);
  return { root, podman };
}

/** A contents stream without files. */
async function streamOf(t: TestContext): Promise<Buffer> {
  const fifo = join(await temporaryFolder(t), 'fifo');
  execFileSync('mkfifo', [fifo]);
  const reader = openSync(fifo, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    await new (native().ContentsSender)(fifo).finish();
    return readFileSync(reader);
  } finally {
    closeSync(reader);
  }
}

/** The clock of a host stands still between two of these. Nobody reads half of it. */
export async function setUptime({ root }: Place, seconds: number): Promise<void> {
  const draft = join(root, 'proc/uptime.draft');
  await writeFile(draft, `${seconds}.00 1.00\n`);
  await rename(draft, join(root, 'proc/uptime'));
}

export async function twoHosts(t: TestContext): Promise<Hosts> {
  const source = await place(t, await sourceHost(t));
  const target = await place(t, await targetHost(t));
  const bundle = join(source.podman, containerId, 'userdata');
  await unpackTo(bundle, sample());
  const [inspected] = JSON.parse(sourcePrograms['podman container']) as object[];
  const known = JSON.stringify([{ ...inspected, StaticDir: bundle }]);
  await writeFile(join(source.podman, 'inspect.json'), known);
  await writeFile(join(source.podman, 'state'), 'running\n');
  await writeFile(join(source.podman, 'archive.tar'), await tarOf(entriesOf(sample())));
  await writeFile(join(source.podman, 'stream'), await streamOf(t));
  await writeFile(join(target.podman, 'image-id'), `${imageId}\n`);
  const bin = await temporaryFolder(t);
  await symlink(join(repository, 'test/unit/migrate-podman.sh'), join(bin, 'podman'));
  // The last words are the verb and its arguments.
  const ssh = `#!/bin/sh
while [ "$1" != kfd-checkpoint ]; do shift; done
shift
what=$1
case "$*" in
*--stream*) what=stream ;;
*--previous*) what=previous ;;
esac
echo $$ $what >>${target.podman}/connections
while [ -e ${target.podman}/hold-$what ]; do : >${target.podman}/hold-$what.reached; sleep 0.1; done
[ ! -e ${target.podman}/no-network ] || exit 255
export MIGRATE_ROOT=${target.root} FAKE_PODMAN=${target.podman} TMPDIR=
cd ${target.podman}
[ "$1" = migrate-target ] && [ -e mute ] || exec ${process.execPath} ${program} "$@"
most=$(cat mute)
rm mute
exec ${process.execPath} ${mute} "$most" muted ${process.execPath} ${program} "$@"
`;
  await writeFile(join(bin, 'ssh'), ssh);
  await chmod(join(bin, 'ssh'), 0o755);
  const env = { ...process.env, PATH: `${bin}:${process.env['PATH']}` };
  return { source, target, env };
}

export interface Running {
  readonly child: ChildProcess;
  readonly ended: Promise<{ status: number | null; stdout: string; stderr: string }>;
}

export function migrate(t: TestContext, { source, env }: Hosts, ...options: string[]): Running {
  const words = ['migrate', '--format', 'json', ...options, 'job', 'host-b'];
  const child = spawn(process.execPath, [program, ...words], {
    env: { ...env, MIGRATE_ROOT: source.root, FAKE_PODMAN: source.podman },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  t.after(() => child.kill('SIGKILL'));
  let [stdout, stderr] = ['', ''];
  child.stdout.on('data', (text: Buffer) => {
    stdout += text;
  });
  child.stderr.on('data', (text: Buffer) => {
    stderr += text;
  });
  const ended = once(child, 'close').then(([status]) => ({ status, stdout, stderr }));
  return { child, ended };
}

export const stateOf = ({ podman }: Place) => {
  const file = join(podman, 'state');
  return existsSync(file) ? readFileSync(file, 'utf8').trim() : 'none';
};

export const records = ({ root }: Place) => {
  const folder = join(root, 'var/lib/kfd-checkpoint/migrations');
  return existsSync(folder) ? readdirSync(folder) : [];
};

/** Names of what has arrived in memory. */
export const stored = (place: Place) => runFiles(place).filter((name) => name.endsWith('.memory'));

/** Locks, logs, sockets, and what has arrived. */
export const runFiles = ({ root }: Place) => {
  const folder = join(root, 'run/kfd-checkpoint/migrations');
  return existsSync(folder) ? readdirSync(folder) : [];
};

export async function until(what: string, isSo: () => boolean | Promise<boolean>): Promise<void> {
  // A busy host needs minutes for what takes a second.
  for (let left = 12_000; !(await isSo()); left -= 1) {
    assert.ok(left > 0, what);
    await delay(50);
  }
}

/** Each restore, checkpoint or connection that has `name` as its hold waits for the end of that file. */
export async function hold({ podman }: Place, name: string) {
  await writeFile(join(podman, name), '');
  return {
    reached: () => until(`${name} reached`, () => existsSync(join(podman, `${name}.reached`))),
    release: () => rm(join(podman, name)),
  };
}
