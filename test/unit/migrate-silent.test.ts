/** A target that hangs: its process lives, its connection too, and it says nothing any more. */

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { errorIn } from './cli-context.js';
import { type Hosts, migrate, setUptime, stateOf, twoHosts, until } from './migrate-two-places.js';

/** Begins a migration whose first connection loses all messages of the target but `most`. Resolves when one is lost. */
async function muted(t: TestContext, most: number) {
  const hosts = await twoHosts(t);
  await writeFile(join(hosts.target.podman, 'mute'), `${most}\n`);
  const moving = migrate(t, hosts);
  await until('a lost word', () => existsSync(join(hosts.target.podman, 'muted')));
  return { hosts, moving };
}

/** Time goes by on the source until the command has ended. */
async function untilEnded({ source }: Hosts, moving: ReturnType<typeof migrate>) {
  let hasEnded = false;
  moving.ended.then(
    () => {
      hasEnded = true;
    },
    () => undefined,
  );
  for (let seconds = 1200; !hasEnded; seconds += 200) {
    await setUptime(source, seconds);
    await delay(1000);
  }
  return moving.ended;
}

for (const [most, what] of [
  [0, 'before its answer to the question'],
  [1, 'before it has a place for the contents'],
  [2, 'when all has been sent'],
] as const) {
  test(`one that hangs ${what}: the container runs here`, async (t) => {
    const { hosts, moving } = await muted(t, most);
    const { status, stderr } = await untilEnded(hosts, moving);
    assert.equal(status, 6, stderr);
    assert.equal(errorIn(stderr).code, 'E_TIMEOUT');
    assert.match(errorIn(stderr).message, /host-b: does not answer$/);
    assert.deepEqual([stateOf(hosts.source), stateOf(hosts.target)], ['running', 'none']);
  });
}

test('one that hangs when the container runs there: the guard pauses it, and it moves', async (t) => {
  const { hosts, moving } = await muted(t, 3);
  await until('it runs there', () => stateOf(hosts.target) === 'running');
  await setUptime(hosts.target, 1200);
  const { status, stderr } = await moving.ended;
  assert.equal(status, 0, stderr);
  assert.deepEqual([stateOf(hosts.source), stateOf(hosts.target)], ['none', 'running']);
});

test('one that hangs before its last word: it is asked over a new connection', async (t) => {
  const { hosts, moving } = await muted(t, 4);
  const { status, stderr } = await untilEnded(hosts, moving);
  assert.equal(status, 0, stderr);
  assert.deepEqual([stateOf(hosts.source), stateOf(hosts.target)], ['none', 'running']);
});
