import assert from 'node:assert/strict';
import { test } from 'node:test';
import { containerdRows } from '../faults/containerd-rows.js';
import { crossSection } from '../faults/cross-section.js';
import { migrateRows } from '../faults/migrate-rows.js';
import { operations } from '../faults/operations.js';
import { conditionNames, containerdOperations, nameOf, signals } from '../faults/row.js';
import { chosen, podmanRows } from '../faults/rows.js';
import { stages } from '../faults/stages/list.js';
import { migrants, victims } from '../faults/support/victims.js';

const steps = podmanRows.flatMap(({ operation, engine, steps: ofRow }) =>
  ofRow.map((step) => ({ operation, engine, ...step })),
);

/** What of `wanted` is not in `found`. */
function missing(wanted: readonly string[], found: readonly (string | undefined)[]): string[] {
  return wanted.filter((name) => !found.includes(name));
}

test('every operation, victim, signal and condition occurs in the table, each with both engines', () => {
  const signalled = steps.flatMap(({ fault, ...rest }) =>
    typeof fault === 'object' ? [{ ...rest, ...fault }] : [],
  );
  assert.deepEqual(
    missing(
      Object.keys(operations),
      steps.map(({ operation }) => operation),
    ),
    [],
  );
  assert.deepEqual(
    missing(
      conditionNames,
      steps.map(({ fault }) => String(fault)),
    ),
    [],
  );
  const pairs = signalled.map(({ victim, engine }) => `${victim} ${engine}`);
  const others: readonly string[] = ['proxy', 'stock', 'daemon', ...migrants];
  const ofPodman = victims.filter((name) => !others.includes(name));
  const wanted = ofPodman.flatMap((name) => [`${name} crun`, `${name} runc`]);
  assert.deepEqual(missing(wanted, pairs), []);
  const both = signalled.map(({ victim, signal }) => `${victim} ${signal}`);
  const all = ofPodman.flatMap((name) =>
    name === 'task' ? ['task SIGKILL'] : signals.map((signal) => `${name} ${signal}`),
  );
  assert.deepEqual(missing(all, both), []);
});

test('every point of the product is one of the table', () => {
  const all = [...steps, ...[...containerdRows, ...migrateRows].flatMap((row) => row.steps)];
  assert.deepEqual(
    missing(
      stages,
      all.map(({ stage }) => stage),
    ),
    [],
  );
});

test('a migration is struck at 25 points at least, whoever plays it by each signal', () => {
  const first = migrateRows.flatMap(({ steps: [step] }) => step ?? []);
  const pairs = first.map(({ fault }) =>
    typeof fault === 'string' ? fault : `${fault.victim} ${fault.signal}`,
  );
  const wanted = [...migrants, 'engine'].flatMap((name) => signals.map((one) => `${name} ${one}`));
  assert.deepEqual(missing(wanted, pairs), []);
  const all = migrateRows.flatMap((row) => row.steps);
  const own = stages.filter((name) => name.startsWith('migrate-'));
  assert.deepEqual(
    missing(
      own,
      all.map(({ stage }) => stage),
    ),
    [],
  );
  assert.ok(new Set(all.map(({ stage }) => stage)).size >= 25);
  assert.ok(migrateRows.length >= 50);
});

test('the cross-section has ten rows, and each operation', () => {
  const operationsOf = new Set(crossSection.map(({ operation }) => operation));
  assert.equal(new Set(crossSection.map(nameOf)).size, 10);
  assert.deepEqual(
    missing([...Object.keys(operations), ...containerdOperations], [...operationsOf]),
    [],
  );
});

test('rows have names of their own, and there are many', () => {
  const names = chosen(/./).map(nameOf);
  assert.deepEqual(
    names.filter((name, i) => names.indexOf(name) !== i),
    [],
  );
  assert.ok(names.length >= 150, `${names.length}`);
});
