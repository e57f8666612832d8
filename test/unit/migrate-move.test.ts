/** The verb and all that it starts, as processes on two hosts: stand-ins for ssh and podman, the rest as it is. */

import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { chmod, mkdir, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { json } from '../../src/cli/format.js';
import { entriesOf, tarOf, unpackTo } from './archive-builder.js';
import { assertGolden } from './golden.js';
import { containerId, imageId, sourceHost, sourcePrograms, targetHost } from './migrate-hosts.js';
import { repository, temporaryFolder } from './paths.js';
import { sample } from './restorable.js';

const program = join(repository, 'dist/test/unit/migrate-program.js');

interface Place {
  readonly root: string;
  readonly podman: string;
}

interface Hosts {
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

/** The clock of a host stands still between two of these. */
const setUptime = ({ root }: Place, seconds: number) =>
  writeFile(join(root, 'proc/uptime'), `${seconds}.00 1.00\n`);

async function twoHosts(t: TestContext): Promise<Hosts> {
  const source = await place(t, await sourceHost(t));
  const target = await place(t, await targetHost(t));
  const bundle = join(source.podman, containerId, 'userdata');
  await unpackTo(bundle, sample());
  const [inspected] = JSON.parse(sourcePrograms['podman container']) as object[];
  const known = JSON.stringify([{ ...inspected, StaticDir: bundle }]);
  await writeFile(join(source.podman, 'inspect.json'), known);
  await writeFile(join(source.podman, 'state'), 'running\n');
  await writeFile(join(source.podman, 'archive.tar'), await tarOf(entriesOf(sample())));
  await writeFile(join(target.podman, 'image-id'), `${imageId}\n`);
  const bin = await temporaryFolder(t);
  await symlink(join(repository, 'test/unit/migrate-podman.sh'), join(bin, 'podman'));
  // The last words are the verb and its arguments.
  const ssh = `#!/bin/sh
while [ "$1" != kfd-checkpoint ]; do shift; done
shift
echo $$ $1 >>${target.podman}/connections
[ ! -e ${target.podman}/no-network ] || exit 255
export MIGRATE_ROOT=${target.root} FAKE_PODMAN=${target.podman} TMPDIR=
exec ${process.execPath} ${program} "$@"
`;
  await writeFile(join(bin, 'ssh'), ssh);
  await chmod(join(bin, 'ssh'), 0o755);
  const env = { ...process.env, PATH: `${bin}:${process.env['PATH']}` };
  return { source, target, env };
}

interface Running {
  readonly child: ChildProcess;
  readonly ended: Promise<{ status: number | null; stdout: string; stderr: string }>;
}

function migrate(t: TestContext, { source, env }: Hosts): Running {
  const child = spawn(process.execPath, [program, 'migrate', '--format', 'json', 'job', 'host-b'], {
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

const stateOf = ({ podman }: Place) => {
  const file = join(podman, 'state');
  return existsSync(file) ? readFileSync(file, 'utf8').trim() : 'none';
};

const records = ({ root }: Place) => {
  const folder = join(root, 'var/lib/kfd-checkpoint/migrations');
  return existsSync(folder) ? readdirSync(folder) : [];
};

const stored = ({ root }: Place) => readdirSync(join(root, 'var/lib/kfd-checkpoint/store'));

async function until(what: string, isSo: () => boolean): Promise<void> {
  for (let left = 1200; !isSo(); left -= 1) {
    assert.ok(left > 0, what);
    await delay(50);
  }
}

/** Each restore or checkpoint that has `name` as its hold waits for the end of that file. */
async function hold({ podman }: Place, name: string) {
  await writeFile(join(podman, name), '');
  return {
    reached: () => until(`${name} reached`, () => existsSync(join(podman, `${name}.reached`))),
    release: () => rm(join(podman, name)),
  };
}

test('a container moves: it is gone here, runs there, and nothing is left over', async (t) => {
  const hosts = await twoHosts(t);
  const { status, stdout, stderr } = await migrate(t, hosts).ended;
  assert.equal(status, 0, stderr);
  const report = JSON.parse(stdout) as Record<string, unknown>;
  const steady = { ...report, migration: 'ID', bytes: 1, downtime_ms: 1, parts_ms: {} };
  assertGolden(json(steady), 'cli-json/migrate.json');
  const parts = report['parts_ms'] as Record<string, unknown>;
  assert.deepEqual(Object.keys(parts), ['checkpoint', 'send', 'check', 'restore']);
  for (const one of [report['downtime_ms'], ...Object.values(parts)])
    assert.equal(typeof one, 'number');
  assert.match(stderr, /job: is stopped; sending it\n/);
  assert.deepEqual([stateOf(hosts.source), stateOf(hosts.target)], ['none', 'running']);
  assert.deepEqual([records(hosts.source), stored(hosts.target)], [[], []]);
  assert.match(
    readFileSync(join(hosts.target.podman, 'log'), 'utf8'),
    /restore --import \/\S+tar\n/,
  );
  assert.match(readFileSync(join(hosts.source.podman, 'log'), 'utf8'), /^container rm --ignore/m);
});

test('what cannot be restored there runs here again, with the reason of the other host', async (t) => {
  const hosts = await twoHosts(t);
  await writeFile(join(hosts.target.podman, 'fail-restore'), '');
  const { status, stderr } = await migrate(t, hosts).ended;
  assert.equal(status, 1, stderr);
  const { error } = JSON.parse(stderr.trimEnd().split('\n').at(-1) ?? '') as {
    error: { message: string };
  };
  assert.match(
    error.message,
    /^job: did not move, and runs here: host-b: restore: restore failed$/,
  );
  assert.deepEqual([stateOf(hosts.source), stateOf(hosts.target)], ['running', 'none']);
  assert.deepEqual(
    [records(hosts.source), records(hosts.target), stored(hosts.target)],
    [[], [], []],
  );
});

test('after SIGKILL of the source the same command goes on, and the container moves', async (t) => {
  const hosts = await twoHosts(t);
  const restore = await hold(hosts.target, 'hold-restore');
  const first = migrate(t, hosts);
  await restore.reached();
  first.child.kill('SIGKILL');
  await first.ended;
  assert.deepEqual([stateOf(hosts.source), stateOf(hosts.target)], ['exited', 'none']);
  const second = migrate(t, hosts);
  await restore.release();
  const { status, stderr } = await second.ended;
  assert.equal(status, 0, stderr);
  assert.match(stderr, /^job: a migration to host-b goes on$/m);
  assert.deepEqual([stateOf(hosts.source), stateOf(hosts.target)], ['none', 'running']);
});

test('SIGKILL of the source while podman makes the checkpoint: the next one brings it back', async (t) => {
  const hosts = await twoHosts(t);
  const checkpoint = await hold(hosts.source, 'hold-checkpoint');
  const first = migrate(t, hosts);
  await checkpoint.reached();
  first.child.kill('SIGKILL');
  await first.ended;
  const second = migrate(t, hosts);
  await checkpoint.release();
  const { status, stderr } = await second.ended;
  assert.equal(status, 1, stderr);
  assert.match(stderr, /job: did not move, and runs here: /);
  assert.deepEqual([stateOf(hosts.source), stateOf(hosts.target)], ['running', 'none']);
});

test('the guard ends what has no lease any more, and the source goes on', async (t) => {
  const hosts = await twoHosts(t);
  const restore = await hold(hosts.target, 'hold-restore');
  const running = migrate(t, hosts);
  await restore.reached();
  await writeFile(join(hosts.target.podman, 'no-network'), '');
  await setUptime(hosts.target, 1200);
  await until('the guard has ended it', () => records(hosts.target).length === 0);
  assert.deepEqual([stateOf(hosts.source), stateOf(hosts.target)], ['exited', 'none']);
  assert.equal(stored(hosts.target).length, 0);
  await setUptime(hosts.source, 1200);
  const { status, stderr } = await running.ended;
  assert.equal(status, 6, stderr);
  assert.match(stderr, /did not move, and runs here: host-b: has not said in time that it runs/);
  assert.deepEqual([stateOf(hosts.source), stateOf(hosts.target)], ['running', 'none']);
});
