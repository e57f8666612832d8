/** The verb and all that it starts, as processes on two hosts: stand-ins for ssh and podman, the rest as it is. */

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { json } from '../../src/cli/format.js';
import { placesBelow } from '../../src/migrate/places.js';
import { Lock } from '../../src/os/lock.js';
import { errorIn } from './cli-context.js';
import { assertGolden } from './golden.js';
import {
  hold,
  migrate,
  records,
  runFiles,
  setUptime,
  stateOf,
  stored,
  twoHosts,
  until,
} from './migrate-two-places.js';

test('a container moves: it is gone here, runs there, and nothing is left over', async (t) => {
  const hosts = await twoHosts(t);
  const { status, stdout, stderr } = await migrate(t, hosts).ended;
  assert.equal(status, 0, stderr);
  const report = JSON.parse(stdout) as Record<string, unknown>;
  const steady = { ...report, migration: 'ID', bytes: 1, downtime_ms: 1, parts_ms: {} };
  assertGolden(json(steady), 'cli-json/migrate.json');
  const parts = report['parts_ms'] as Record<string, unknown>;
  assert.deepEqual(Object.keys(parts), ['checkpoint', 'send', 'check', 'restore']);
  assert.deepEqual([report['downtime_from'], report['before_ms']], ['podman', null]);
  for (const one of [report['downtime_ms'], ...Object.values(parts)])
    assert.equal(typeof one, 'number');
  assert.match(stderr, /job: is stopped; sending it\n/);
  assert.deepEqual([stateOf(hosts.source), stateOf(hosts.target)], ['none', 'running']);
  assert.deepEqual([records(hosts.source), stored(hosts.target)], [[], []]);
  // The guard looks twice a second whether there is something to guard.
  const left = () => [hosts.source, hosts.target].flatMap((host) => runFiles(host));
  await until('nothing is left in /run', () => left().length === 0);
  assert.deepEqual(records(hosts.target), []);
  assert.match(
    readFileSync(join(hosts.target.podman, 'log'), 'utf8'),
    /restore --import \/\S+checkpoint\.tar --import-previous \/\S+pre-checkpoint\.tar\n/,
  );
  assert.match(readFileSync(join(hosts.source.podman, 'log'), 'utf8'), /^container rm --ignore/m);
});

test('the time counts from the freeze that the session has told', async (t) => {
  const hosts = await twoHosts(t);
  const checkpoint = await hold(hosts.source, 'hold-checkpoint');
  const moving = migrate(t, hosts);
  await checkpoint.reached();
  const ms = Number(process.hrtime.bigint()) / 1e6;
  await writeFile(join(hosts.source.podman, 'frozen'), `${process.hrtime.bigint()}\n`);
  await checkpoint.release();
  const { status, stdout, stderr } = await moving.ended;
  const all = Number(process.hrtime.bigint()) / 1e6 - ms;
  assert.equal(status, 0, stderr);
  const report = JSON.parse(stdout) as Record<string, number> & { parts_ms: object };
  assert.equal(report['downtime_from'], 'freeze');
  // Within what this test has seen pass, whatever a busy host makes of it.
  assert.ok((report['downtime_ms'] ?? all) < all, `${stdout} ${all}`);
  assert.ok((report['before_ms'] ?? -1) >= 0);
  const sum = Object.values(report.parts_ms).reduce((one: number, two: number) => one + two, 0);
  assert.ok(Math.abs(sum - (report['downtime_ms'] ?? 0)) <= 4, stdout);
});

test('a target waits for a process that looks whether the migration has left something', async (t) => {
  const hosts = await twoHosts(t);
  const asking = await hold(hosts.target, 'hold-migrate-target');
  const moving = migrate(t, hosts);
  await asking.reached();
  const [id] = runFiles(hosts.source).flatMap((name) => /^(.{32})\.source$/.exec(name)?.[1] ?? []);
  assert.ok(id !== undefined);
  const lock = await Lock.tryTake(placesBelow(hosts.target.root).lock(id));
  await asking.release();
  // Long enough for its beginning.
  await Promise.race([moving.ended, delay(5000)]);
  await lock?.remove();
  const { status, stderr } = await moving.ended;
  assert.equal(status, 0, stderr);
  assert.equal(stateOf(hosts.target), 'running');
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

test('SIGKILL of a target that receives: its memory is free, and the container goes on', async (t) => {
  const hosts = await twoHosts(t);
  const checkpoint = await hold(hosts.source, 'hold-checkpoint');
  const moving = migrate(t, hosts);
  await checkpoint.reached();
  assert.equal(stored(hosts.target).length, 1);
  const connections = readFileSync(join(hosts.target.podman, 'connections'), 'utf8');
  process.kill(Number(/^(\d+) migrate-target$/m.exec(connections)?.[1]), 'SIGKILL');
  await until('nothing is kept there', () => stored(hosts.target).length === 0);
  await checkpoint.release();
  const { status, stderr } = await moving.ended;
  assert.equal(status, 3, stderr);
  assert.deepEqual([stateOf(hosts.source), stateOf(hosts.target)], ['running', 'none']);
});

test('with --store a folder there keeps what arrives', async (t) => {
  const hosts = await twoHosts(t);
  const restore = await hold(hosts.target, 'hold-restore');
  const moving = migrate(t, hosts, '--store', '/srv/kept');
  await restore.reached();
  const folder = join(hosts.target.root, 'srv/kept');
  const [id = ''] = readdirSync(folder);
  const arrived = ['checkpoint.tar', 'contents', 'pre-checkpoint.tar'];
  assert.deepEqual(readdirSync(join(folder, id)).sort(), arrived);
  assert.deepEqual(stored(hosts.target), []);
  await restore.release();
  const { status, stderr } = await moving.ended;
  assert.equal(status, 0, stderr);
  assert.deepEqual(readdirSync(folder), []);
});

test('what cannot be brought back either is told with both reasons, and can be tried again', async (t) => {
  const hosts = await twoHosts(t);
  for (const { podman } of [hosts.source, hosts.target])
    await writeFile(join(podman, 'fail-restore'), '');
  const { status, stderr } = await migrate(t, hosts).ended;
  assert.equal(status, 1, stderr);
  const { message, hint } = errorIn(stderr);
  assert.match(
    message,
    /^job: cannot be brought back: restore: restore failed; it did not move: ho/,
  );
  assert.equal(hint, 'run "kfd-checkpoint migrate job host-b" again');
  assert.equal(stateOf(hosts.source), 'exited');
  await rm(join(hosts.source.podman, 'fail-restore'));
  const again = await migrate(t, hosts).ended;
  assert.match(errorIn(again.stderr).message, /^job: did not move, and runs here: /);
  assert.equal(stateOf(hosts.source), 'running');
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
