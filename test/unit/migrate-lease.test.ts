import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  isOverAtTarget,
  sourceDeadline,
  targetDeadline,
  waitAtSource,
} from '../../src/migrate/protocol/lease.js';

const terms = { leaseMs: 10_000, marginMs: 3000 };
const at = (ms: number, bootId = 'a') => ({ bootId, ms });

test('the source waits longer than the target runs, also with clocks that differ by one percent', () => {
  const asked = targetDeadline(at(500), terms).ms - 500;
  const granted = sourceDeadline(at(70_000), terms).ms - 70_000;
  assert.equal(asked, 10_000);
  assert.equal(granted, 13_100);
  assert.ok(granted >= asked * 1.01 + terms.marginMs);
});

test('at the target the lease ends at its deadline, and with the boot', () => {
  const deadline = targetDeadline(at(0), terms);
  assert.equal(isOverAtTarget(deadline, at(9999)), false);
  assert.equal(isOverAtTarget(deadline, at(10_000)), true);
  assert.equal(isOverAtTarget(deadline, at(5, 'b')), true);
});

test('a source whose host has started again waits for the whole lease', () => {
  const deadline = sourceDeadline(at(1000), terms);
  assert.equal(waitAtSource(deadline, at(1100), at(1100), terms), 13_000);
  assert.equal(waitAtSource(deadline, at(99_000), at(99_000), terms), 0);
  assert.equal(waitAtSource(deadline, at(60, 'b'), at(50, 'b'), terms), 13_090);
});
