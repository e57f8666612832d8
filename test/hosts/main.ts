/**
 * Migrations between two guests, by the system's ssh over a network that can be cut. Both have a simulated GPU; that of
 * host-b has another number. Prints TAP. `npm run test:hosts` runs it in host-a.
 * usage: main.js [podman|containerd|task-kills]   both engines, or one part; task-kills is with the test build
 */

import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { test } from 'node:test';
import { loadImage } from '../e2e/support/guest.js';
import { installThere } from '../e2e/support/host-b.js';
import { install } from '../e2e/support/product.js';

const [, , only] = process.argv;

await Promise.all([install(), loadImage(), installThere()]);
for (const part of only === undefined ? ['podman', 'containerd'] : [only])
  await import(`./${part}.js`);

test('nothing is left in the folders of sessions', () => {
  assert.deepEqual(
    readdirSync('/run/kfd-checkpoint').filter((name) => name !== 'migrations'),
    [],
  );
});
