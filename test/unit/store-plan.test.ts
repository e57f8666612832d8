/** Which stores an image takes over. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { planStores } from '../../src/archive/store-plan.js';

const mib = 1 << 20;
const full = (live: number) => ({ live, stored: live });

test('contents that are all there need no new store', () => {
  assert.deepEqual(planStores([full(mib), full(2 * mib)], 0), { kept: [0, 1], added: 0, bytes: 0 });
  assert.deepEqual(planStores([], 0), { kept: [], added: 0, bytes: 0 });
});

test('a first image has up to 16 stores, none smaller than 64 MiB without need', () => {
  assert.deepEqual(planStores([], 1), { kept: [], added: 1, bytes: 1 });
  assert.deepEqual(planStores([], 64 * mib + 2), { kept: [], added: 2, bytes: 32 * mib + 1 });
  assert.deepEqual(planStores([], 4096 * mib), { kept: [], added: 16, bytes: 256 * mib });
});

test('a store that is mostly unused is given up, and what is used of it goes to a new one', () => {
  const uses = [
    { live: 5 * mib, stored: 10 * mib },
    { live: 5 * mib - 1, stored: 10 * mib },
    { live: 0, stored: 0 },
  ];
  assert.deepEqual(planStores(uses, mib), { kept: [0], added: 1, bytes: 6 * mib - 1 });
});

test('an image has at most 64 stores, and gives up the smallest ones first', () => {
  const uses = Array.from({ length: 64 }, (_, place) => full((place + 1) * mib));
  assert.equal(planStores(uses, 0).kept.length, 64);
  const plan = planStores(uses, mib);
  assert.deepEqual([plan.kept.length, plan.kept[0], plan.added], [63, 1, 1]);
  assert.equal(plan.bytes, 2 * mib);
});

test('one changed part in twenty is sent again, and little more, however often', () => {
  let stores = [full(1000 * mib)];
  let sent = 0;
  for (let round = 0; round < 100; round++) {
    // Each store loses its share of what changes.
    const live = stores.map(({ live, stored }) => ({ live: Math.round(live * 0.95), stored }));
    const missing = 1000 * mib - live.reduce((sum, one) => sum + one.live, 0);
    const { kept, added, bytes } = planStores(live, missing);
    const fresh = Array.from({ length: added }, () => full(bytes));
    sent += added * bytes;
    stores = [...kept.flatMap((place) => live[place] ?? []), ...fresh];
    assert.ok(stores.length <= 64);
    const stored = stores.reduce((sum, one) => sum + one.stored, 0);
    assert.ok(stored <= 2000 * mib, `${stored} bytes are stored`);
  }
  // Half a store is moved for each store that is given up.
  assert.ok(sent <= 100 * 110 * mib, `${sent / mib} MiB`);
});
