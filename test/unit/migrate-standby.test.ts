/** Programs of the target that have started before they are needed: they wait, and go with whoever started them. */

import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { guardVerb, restoreVerb } from '../../src/migrate/standby.js';
import { errorIn } from './cli-context.js';
import {
  hold,
  migrate,
  type Place,
  records,
  runFiles,
  stateOf,
  twoHosts,
  until,
} from './migrate-two-places.js';

/** Those of a host that wait or work: pids by verb. */
function helpers({ root }: Place): Map<string, number> {
  const found = new Map<string, number>();
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    try {
      const words = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
      const verb = words.find((word) => word === guardVerb || word === restoreVerb);
      // The shell that has the lock names the same words.
      if (verb !== undefined && words[0] === process.execPath && words.includes(root))
        found.set(verb, Number(pid));
    } catch {
      // It has ended.
    }
  }
  return found;
}

/** The process that plays the target. */
function targetProcess({ podman }: Place): number {
  const lines = readFileSync(join(podman, 'connections'), 'utf8').split('\n');
  return Number(lines.find((line) => line.endsWith(' migrate-target'))?.split(' ')[0]);
}

const restores = ({ podman }: Place) => {
  const file = join(podman, 'log');
  return existsSync(file) && /^container restore/m.test(readFileSync(file, 'utf8'));
};

for (const end of ['cancel', 'kill'] as const) {
  test(`they wait while the checkpoint is made, and go when it is given up (${end})`, async (t) => {
    const hosts = await twoHosts(t);
    const checkpoint = await hold(hosts.source, 'hold-checkpoint');
    const moving = migrate(t, hosts);
    await checkpoint.reached();
    await until('both wait', () => helpers(hosts.target).size === 2);
    if (end === 'cancel') moving.child.kill('SIGINT');
    else process.kill(targetProcess(hosts.target), 'SIGKILL');
    await checkpoint.release();
    const { status, stderr } = await moving.ended;
    assert.notEqual(status, 0);
    assert.match(errorIn(stderr).message, /^job: did not move, and runs here: /);
    await until('nobody waits', () => helpers(hosts.target).size === 0);
    assert.equal(restores(hosts.target), false);
    assert.deepEqual([stateOf(hosts.source), stateOf(hosts.target)], ['running', 'none']);
    assert.deepEqual(records(hosts.target), []);
    // What a killed process has left is removed by the next migration.
    if (end === 'cancel') await until('no file', () => runFiles(hosts.target).length === 0);
  });
}

test('podman restores nothing before there is a lease, and a restore that was killed is told', async (t) => {
  const hosts = await twoHosts(t);
  const checkpoint = await hold(hosts.source, 'hold-checkpoint');
  const moving = migrate(t, hosts);
  await checkpoint.reached();
  await until('both wait', () => helpers(hosts.target).size === 2);
  assert.equal(restores(hosts.target), false);
  process.kill(helpers(hosts.target).get(restoreVerb) as number, 'SIGKILL');
  await checkpoint.release();
  const { status, stderr } = await moving.ended;
  assert.notEqual(status, 0);
  assert.match(errorIn(stderr).message, /^job: did not move, and runs here: host-b: restore: /);
  assert.equal(restores(hosts.target), false);
  await until('the guard goes, too', () => helpers(hosts.target).size === 0);
  assert.deepEqual([stateOf(hosts.source), stateOf(hosts.target)], ['running', 'none']);
});

test('a guard that was killed before it watched has a successor', async (t) => {
  const hosts = await twoHosts(t);
  const checkpoint = await hold(hosts.source, 'hold-checkpoint');
  const restore = await hold(hosts.target, 'hold-restore');
  const moving = migrate(t, hosts);
  await checkpoint.reached();
  await until('both wait', () => helpers(hosts.target).size === 2);
  const first = helpers(hosts.target).get(guardVerb) as number;
  process.kill(first, 'SIGKILL');
  await checkpoint.release();
  await restore.reached();
  const next = helpers(hosts.target).get(guardVerb);
  assert.ok(next !== undefined && next !== first, `${next}`);
  await restore.release();
  const { status, stderr } = await moving.ended;
  assert.equal(status, 0, stderr);
  assert.deepEqual([stateOf(hosts.source), stateOf(hosts.target)], ['none', 'running']);
  await until('nobody stays', () => helpers(hosts.target).size === 0);
});
