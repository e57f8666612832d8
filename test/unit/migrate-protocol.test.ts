import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { initialSource, transition, whyTooLate } from '../../src/migrate/protocol/source.js';
import { transition as atTarget, initialTarget } from '../../src/migrate/protocol/target.js';
import { ends, reachable } from './migrate-explore.js';
import { migrationPage } from './migrate-page.js';
import { error, running, type World } from './migrate-world.js';
import { repository } from './paths.js';

/** Faults of each kind: processes killed or hosts started again, connections cut, work that fails. */
const limits = [
  { kills: 1, cuts: 1, failures: 0 },
  { kills: 0, cuts: 1, failures: 1 },
  { kills: 2, cuts: 0, failures: 0 },
];

const told = (world: World) => JSON.stringify(world);

for (const limit of limits) {
  test(`a migration with faults ${told(limit as World)}`, async (t) => {
    // Throws where both sides run the container.
    const worlds = reachable(limit);
    assert.ok(worlds.length > 4000, `${worlds.length}`);

    await t.test('when faults end, exactly one side comes to run it', () => {
      const last = ends(worlds, 'fair');
      assert.ok(last.length > 30);
      for (const world of last) {
        const { source, target } = running(world);
        assert.notEqual(source, target, told(world));
      }
      assert.ok(last.some((world) => world.targetDisk === 'settled' && running(world).target));
      assert.ok(last.some((world) => running(world).source));
    });

    await t.test('without a network for ever, only a lost last word leaves it standing', () => {
      const last = ends(worlds, 'no-network');
      for (const world of last) {
        const { source, target } = running(world);
        const lastWord = world.sourceDisk === 'given' && world.sourceBox === 'stopped';
        assert.ok(source !== target || (lastWord && !target), told(world));
      }
      assert.ok(last.some((world) => running(world).source));
    });
  });
}

test('src/migrate/protocol/states.md shows what the machines do', () => {
  const page = readFileSync(join(repository, 'src/migrate/protocol/states.md'), 'utf8');
  assert.equal(page, migrationPage(), 'its first lines say how to make it again');
});

test('a migration without faults: checkpoint, lease, the word, the confirmation', () => {
  const events = ['accepted', 'stopped', 'ready', 'resumed', 'taken'] as const;
  const effects: string[] = [];
  let state = initialSource;
  for (const type of events) {
    const step = transition(state, { type });
    state = step.state;
    effects.push(...step.effects);
  }
  assert.equal(state.phase, 'done');
  const asRun = 'record stop send record grant record yours record forget done report';
  assert.equal(effects.join(' '), asRun);
});

test('a cancel counts until the lease is granted', () => {
  assert.equal(whyTooLate({ phase: 'sending' }), undefined);
  assert.equal(whyTooLate({ phase: 'granted' }), 'the target may run the container');
  const { state, effects } = transition({ phase: 'granted' }, { type: 'cancel', error });
  assert.deepEqual([state.phase, effects], ['granted', []]);
});

test('the first reason is the one that counts', () => {
  const later = { type: 'lost', error: new Error('later') as typeof error } as const;
  const { state } = transition({ phase: 'stopping', failure: error }, later);
  assert.equal(state.failure, error);
  const back = transition(state, { type: 'stopped' });
  assert.deepEqual([back.state.phase, back.state.failure], ['returning', error]);
});

test('the target asks for the lease when the guard watches, and starts nothing after the deadline', () => {
  const ready = atTarget(initialTarget, { type: 'received' });
  assert.deepEqual(ready.effects, ['record', 'arm', 'ask']);
  const late = atTarget(ready.state, { type: 'grant', late: true });
  assert.deepEqual([late.state.phase, late.effects.includes('start')], ['ready', false]);
});

test('a target that has started nothing removes no container: one with that id is not its own', () => {
  const events = ['lost', 'fail', 'revoke', 'expired'] as const;
  const removes = (phase: 'receiving' | 'ready' | 'resumed', type: (typeof events)[number]) =>
    atTarget({ phase }, { type, error }).effects.includes('remove');
  for (const phase of ['receiving', 'ready'] as const) {
    for (const type of events) assert.equal(removes(phase, type), false, `${type} while ${phase}`);
  }
  assert.equal(removes('resumed', 'revoke'), true);
});
