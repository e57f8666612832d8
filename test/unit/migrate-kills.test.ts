/** Both sides of a migration, killed before and after everything that they do on their hosts: never two, never none. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import type { Kill } from './migrate-processes.js';
import { TwoHosts } from './migrate-two-hosts.js';

test('without faults the container moves, and each side does what it must in this order', async () => {
  const hosts = new TwoHosts();
  const state = await hosts.migrate();
  assert.deepEqual([state?.phase, hosts.sourceBox, hosts.targetBox], ['done', 'none', 'runs']);
  assert.deepEqual(hosts.done.source, [
    'write stopping',
    'stop',
    'send',
    'say rest',
    'write granted',
    'say grant',
    'write given',
    'say yours',
    'write done',
    'forget',
    'say done',
    'remove record',
  ]);
  // The last word is on its way.
  for (let left = 100; left > 0 && hosts.targetDisk !== undefined; left -= 1) await turn();
  assert.deepEqual(hosts.done.target, [
    'write ready',
    'arm',
    'say ready',
    'write starting',
    'start',
    'write resumed',
    'say resumed',
    'write owned',
    'remove contents',
    'say taken',
    'remove record',
  ]);
});

test('what cannot be started there goes on here', async () => {
  const hosts = new TwoHosts();
  hosts.failStart = true;
  const state = await hosts.migrate();
  assert.equal(state?.phase, 'returned');
  assert.equal(state?.failure?.code, 'E_VRAM');
  assert.deepEqual(
    [hosts.sourceBox, hosts.targetBox, hosts.targetDisk],
    ['runs', 'none', undefined],
  );
});

/** Every kill of a run with these faults, until there are no more things to do. */
async function killEverywhere(bend: (hosts: TwoHosts) => void): Promise<number> {
  let kills = 0;
  for (const side of ['source', 'target'] as const) {
    for (const moment of ['before', 'after'] as const) {
      for (let at = 0; ; at += 1) {
        const kill: Kill = { side, at, moment };
        const hosts = new TwoHosts(kill);
        bend(hosts);
        await hosts.migrate();
        if (hosts.done[side].length <= at) break;
        assert.doesNotThrow(() => hosts.assertOne(), JSON.stringify(kill));
        kills += 1;
      }
    }
  }
  return kills;
}

test('killed at any point, exactly one side runs it in the end', async () => {
  assert.ok((await killEverywhere(() => undefined)) >= 42);
});

test('the same where the restore fails', async () => {
  const kills = await killEverywhere((hosts) => {
    hosts.failStart = true;
  });
  assert.ok(kills >= 25);
});

test('the same where the connection breaks with any of the words', async () => {
  for (let cutAt = 1; cutAt <= 6; cutAt += 1) {
    const kills = await killEverywhere((hosts) => {
      hosts.cutAt = cutAt;
    });
    assert.ok(kills >= 20, `${cutAt}: ${kills}`);
  }
});
