/** A cross-section of the table of faults (npm run test:faults tries all of it), with the test build in the guest. */

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import type { TestContext } from 'node:test';
import { crossSection } from '../faults/cross-section.js';
import { nameOf, type Result } from '../faults/row.js';
import { absent, describe, installHeld, tryAll, verdict } from '../faults/table.js';
import { partTest } from './support/part.js';
import { install } from './support/product.js';
import { assertNothingLeft } from './support/suite.js';

const built = existsSync('/repo/build/stage-held.tar');
const reason = 'test/faults/build.sh has not made the test build';

async function everyRow(suite: TestContext): Promise<void> {
  const results = new Map<string, Result>();
  await tryAll(crossSection, (result) => void results.set(result.row, result));
  for (const row of crossSection) {
    const name = nameOf(row);
    await suite.test(name, { skip: absent(row.engine) ?? false }, () => {
      const result = results.get(name);
      assert.ok(result !== undefined && verdict(result) !== 'FAIL', result && describe(result));
    });
  }
}

partTest('faults at named points', { skip: built ? false : reason }, async (suite) => {
  await installHeld();
  try {
    await everyRow(suite);
  } finally {
    await install();
  }
  await assertNothingLeft();
});
