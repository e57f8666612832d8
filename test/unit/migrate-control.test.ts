/** `sessions`, `watch` and `cancel` with a migration that runs as processes on two hosts. */

import assert from 'node:assert/strict';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { cli, errorIn } from './cli-context.js';
import { FakeSession, running, sealed } from './control-session.js';
import { containerId } from './migrate-hosts.js';
import {
  hold,
  migrate,
  type Place,
  records,
  stateOf,
  stored,
  twoHosts,
  until,
} from './migrate-two-places.js';

interface Listed {
  readonly migration: string;
  readonly side: string;
  readonly container: string;
  readonly phase: string;
  readonly pid?: number;
  readonly bytes_total: number;
}

async function listed({ root }: Place): Promise<Listed[]> {
  const { code, stdout, stderr } = await cli(['sessions', '--root', root, '--format', 'json']);
  assert.equal(code, 0, stderr);
  return (JSON.parse(stdout) as { migrations: Listed[] }).migrations;
}

const cancel = ({ root }: Place, name: string, ...more: string[]) =>
  cli(['cancel', name, '--root', root, ...more]);

/** Nothing of it runs or is kept anywhere, and the container is where it was. */
function assertBack({ source, target }: { source: Place; target: Place }): void {
  assert.deepEqual([stateOf(source), stateOf(target)], ['running', 'none']);
  assert.deepEqual([records(source), records(target)], [[], []]);
  assert.deepEqual(stored(target), []);
}

test('while the target is asked a cancel ends it at once', async (t) => {
  const hosts = await twoHosts(t);
  const asked = await hold(hosts.target, 'hold-migrate-target');
  const moving = migrate(t, hosts);
  await asked.reached();
  const [one] = await listed(hosts.source);
  assert.deepEqual([one?.phase, one?.pid], ['asking', moving.child.pid]);
  const told = await cancel(hosts.source, 'job', '--reason', 'not today');
  assert.deepEqual([told.code, told.stdout], [0, 'migration of job: cancelled\n']);
  const { status, stderr } = await moving.ended;
  assert.equal(status, 1);
  assert.deepEqual(
    [errorIn(stderr).code, errorIn(stderr).message],
    ['E_CANCELLED', 'migrate: not today'],
  );
  await asked.release();
  assertBack(hosts);
  assert.deepEqual(await listed(hosts.source), []);
});

test('during the checkpoint a cancel ends its session, and the container goes on', async (t) => {
  const hosts = await twoHosts(t);
  const { root } = hosts.source;
  const checkpoint = await hold(hosts.source, 'hold-checkpoint');
  const moving = migrate(t, hosts);
  await checkpoint.reached();
  const other = await FakeSession.start(root, { ...running, container_id: 'dd'.repeat(32) });
  const [one] = await listed(hosts.source);
  assert.equal(one?.phase, 'stopping');
  assert.equal((await cancel(hosts.source, one?.migration ?? '')).code, 0);
  // A session that begins later is found, too.
  const session = await FakeSession.start(root, {
    ...running,
    criu_pid: 17,
    container_id: containerId,
  });
  t.after(() => Promise.all([other.end(sealed), session.end(sealed)]));
  await until('the session is cancelled', () => session.reasons.length > 0);
  assert.deepEqual(session.reasons, ['migrate: by kfd-checkpoint cancel']);
  assert.deepEqual(other.reasons, []);
  await checkpoint.release();
  const { status, stderr } = await moving.ended;
  assert.equal(status, 1);
  assert.match(errorIn(stderr).message, /^job: did not move, and runs here: migrate: by kfd-/);
  assertBack(hosts);
});

test('Ctrl-C during the checkpoint does the same', async (t) => {
  const hosts = await twoHosts(t);
  const checkpoint = await hold(hosts.source, 'hold-checkpoint');
  const moving = migrate(t, hosts);
  await checkpoint.reached();
  const own = { ...running, container_id: containerId };
  const session = await FakeSession.start(hosts.source.root, own);
  t.after(() => session.end(sealed));
  moving.child.kill('SIGINT');
  await until('the session is cancelled', () => session.reasons.length > 0);
  await checkpoint.release();
  const { stderr } = await moving.ended;
  assert.match(errorIn(stderr).message, /^job: did not move, and runs here: migrate: interrupted/);
  assertBack(hosts);
});

test('a failure that leaves the container stopped is told, also after Ctrl-C', async (t) => {
  const hosts = await twoHosts(t);
  const { root } = hosts.source;
  const checkpoint = await hold(hosts.source, 'hold-checkpoint');
  const moving = migrate(t, hosts);
  await checkpoint.reached();
  const session = await FakeSession.start(root, { ...running, container_id: containerId });
  t.after(() => session.end(sealed));
  // From now on nothing can be recorded.
  const record = join(root, 'var/lib/kfd-checkpoint/migrations', records(hosts.source)[0] ?? '');
  await rm(record);
  await mkdir(join(record, 'in-its-place'), { recursive: true });
  moving.child.kill('SIGINT');
  await until('the session is cancelled', () => session.reasons.length > 0);
  await checkpoint.release();
  const { stderr } = await moving.ended;
  assert.equal(stateOf(hosts.source), 'exited');
  assert.notEqual(errorIn(stderr).code, 'E_CANCELLED');
  assert.match(errorIn(stderr).message, /\.source\.json/);
});

test('while it is sent both hosts show it, and either one can cancel it', async (t) => {
  for (const side of ['source', 'target'] as const) {
    const hosts = await twoHosts(t);
    const contents = await hold(hosts.target, 'hold-migrate-contents');
    const moving = migrate(t, hosts);
    await contents.reached();
    // The way is open before the container stops.
    await until('it is sent', async () => (await listed(hosts.source))[0]?.phase === 'sending');
    const [here] = await listed(hosts.source);
    const [there] = await listed(hosts.target);
    assert.equal(here?.side, 'source');
    assert.deepEqual([there?.side, there?.phase], ['target', 'receiving']);
    assert.equal(here?.migration, there?.migration);
    assert.ok((there?.bytes_total ?? 0) > 0);
    const table = await cli(['sessions', '--root', hosts.source.root]);
    assert.match(table.stdout, /^MIGRATION .*\n[0-9a-f]{12} +source +job +host-b +sending /);
    let seen = '';
    const out = (text: string) => {
      seen += text;
    };
    const watching = cli(['watch', '--root', hosts.target.root], { out });
    await until('it is watched', () => seen !== '');
    assert.equal((await cancel(hosts[side], 'job')).code, 0);
    const { status, stderr } = await moving.ended;
    await contents.release();
    assert.equal(status, 1, stderr);
    const message = errorIn(stderr).message;
    assert.match(message, /^job: did not move, and runs here: .*by kfd-checkpoint cancel$/);
    assert.equal((await watching).code, 1);
    // The memory that was sent ahead.
    assert.match(seen, /^migration of job: receiving, 17 B of /);
    assertBack(hosts);
  }
});

test('when the target may run it a cancel is refused, and it moves', async (t) => {
  const hosts = await twoHosts(t);
  const restore = await hold(hosts.target, 'hold-restore');
  const moving = migrate(t, hosts);
  await restore.reached();
  const watching = cli(['watch', 'job', '--root', hosts.source.root, '--format', 'json']);
  for (const place of [hosts.source, hosts.target]) {
    const { code, stderr } = await cancel(place, 'job', '--format', 'json');
    assert.equal(code, 1);
    assert.equal(errorIn(stderr).code, 'E_TOO_LATE');
    assert.match(errorIn(stderr).message, / host may run the container$| target may run the/);
  }
  await restore.release();
  const { status, stderr } = await moving.ended;
  assert.equal(status, 0, stderr);
  const { code, stdout } = await watching;
  assert.equal(code, 0);
  const lines = stdout.trimEnd().split('\n');
  const last = JSON.parse(lines.at(-1) ?? '') as { result: { success: boolean }; phase: string };
  assert.deepEqual([last.result.success, last.phase], [true, 'done']);
  assert.deepEqual([stateOf(hosts.source), stateOf(hosts.target)], ['none', 'running']);
});

test('one whose process was killed is listed as interrupted, and names the way on', async (t) => {
  const hosts = await twoHosts(t);
  const checkpoint = await hold(hosts.source, 'hold-checkpoint');
  const moving = migrate(t, hosts);
  await checkpoint.reached();
  let seen = '';
  const out = (text: string) => {
    seen += text;
  };
  const watching = cli(['watch', 'job', '--root', hosts.source.root], { out });
  await until('it is watched', () => seen !== '');
  moving.child.kill('SIGKILL');
  await moving.ended;
  assert.equal((await watching).code, 4);
  const [one] = await listed(hosts.source);
  assert.deepEqual([one?.phase, one?.pid], ['stopping', undefined]);
  const table = await cli(['sessions', '--root', hosts.source.root]);
  assert.match(table.stdout, /stopping, interrupted/);
  const refused = await cancel(hosts.source, 'job');
  assert.equal(refused.code, 4);
  assert.match(refused.stderr, /run "kfd-checkpoint migrate job host-b"/);
  await checkpoint.release();
  await migrate(t, hosts).ended;
  assertBack(hosts);
});
