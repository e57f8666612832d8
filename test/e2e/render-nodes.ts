/** What a process holds on render nodes beside KFD's memory. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { attempt } from './support/command.js';
import { withHandleCalls } from './support/product.js';
import { assertNothingLeft } from './support/suite.js';

const roundTrip = () => attempt('/repo/build/native/render_roundtrip', '/dev/dri/renderD128');

test('a render file is read and made again, by the native core alone', async () => {
  const without = await roundTrip();
  assert.match(without.stdout, /^refused: GEM buffers of its own: .*no GEM_LIST_HANDLES/);
  for (const [change, how] of [
    ['absent', 'steered'],
    ['disabled', 'steered'],
    ['working', 'changed'],
  ] as const) {
    await withHandleCalls(change, async () => {
      const same = await roundTrip();
      assert.equal(same.stdout, `same: ${how}`, same.stderr);
    });
  }
  await assertNothingLeft();
});
