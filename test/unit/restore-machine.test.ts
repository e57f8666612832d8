import assert from 'node:assert/strict';
import { test } from 'node:test';
import { KfdError } from '../../src/errors.js';
import {
  initialRestore,
  type RestoreEffect,
  type RestoreEvent,
  type RestoreState,
  transition,
  whyTooLate,
} from '../../src/session/restore/machine.js';
import { type Explored, exploreAll, walkAtRandom } from './explore.js';

const error = new KfdError('E_GPU_IO', 'a failure');

/** The session, and what it holds of the tree. */
interface World {
  readonly state: RestoreState;
  readonly dead: boolean;
  readonly asked: boolean;
  readonly resuming: boolean;
  readonly releasing: boolean;
  readonly released: boolean;
  readonly reported: boolean;
}

const begin: World = {
  state: initialRestore,
  dead: false,
  asked: false,
  resuming: false,
  releasing: false,
  released: false,
  reported: false,
};

const anywhere: readonly RestoreEvent[] = [
  { type: 'uploaded' },
  { type: 'fail', error },
  { type: 'deadline', error },
  { type: 'cancel', error },
  { type: 'criu-dead' },
];

function events({ asked, resuming, releasing, reported }: World): readonly RestoreEvent[] {
  if (reported) return [];
  return [
    ...anywhere,
    ...(resuming ? [{ type: 'resumed' } as const] : []),
    ...(asked ? [] : [{ type: 'post-restore' } as const]),
    ...(releasing ? [{ type: 'released' } as const] : []),
  ];
}

function happen(world: World, event: RestoreEvent): World {
  const { state, effects } = transition(world.state, event);
  const now: World = {
    ...world,
    state,
    dead: world.dead || event.type === 'criu-dead',
    asked: world.asked || event.type === 'post-restore',
    resuming: world.resuming && event.type !== 'resumed',
    releasing: world.releasing && event.type !== 'released',
    released: world.released || event.type === 'released',
  };
  return effects.reduce((next, effect) => take(next, effect, event), now);
}

function take(world: World, effect: RestoreEffect, event: RestoreEvent): World {
  const failed = world.state.failure !== undefined;
  assert.ok(!world.reported, `${effect} after the end`);
  switch (effect) {
    case 'resume':
      assert.ok(!failed && !world.dead && !world.released, 'resumed after a failure');
      return { ...world, resuming: true };
    case 'release':
      assert.ok(!world.releasing && !world.released, 'let go twice');
      return { ...world, releasing: true };
    case 'answer':
      assert.ok(world.asked && !failed, 'go on after a failure');
      assert.equal(event.type, 'resumed', 'go on before the GPU');
      return { ...world, asked: false };
    case 'refuse':
      assert.ok(world.asked && failed && world.released, 'refused while GPU memory is held');
      return { ...world, asked: false };
    case 'report':
      assert.ok(world.dead && world.released, 'told before the end');
      return { ...world, reported: true };
    default:
      return world;
  }
}

function finish(world: World): void {
  let end = world.resuming ? happen(world, { type: 'resumed' }) : world;
  if (!end.dead) end = happen(end, { type: 'criu-dead' });
  if (end.releasing) end = happen(end, { type: 'released' });
  assert.ok(end.reported, 'never told');
}

const explored: Explored<World, RestoreEvent> = { begin, events, happen, finish };

test('whatever happens wherever: nothing resumes after a failure, and CRIU is refused when all is let go', () => {
  assert.ok(exploreAll(explored) > 60);
});

test('the same in 100,000 walks', () => {
  walkAtRandom(explored, 100_000, 16);
});

function walk(...path: readonly RestoreEvent[]): World {
  return path.reduce(happen, begin);
}

test('a restore: uploads, RESUME, the answer', () => {
  const done = walk({ type: 'post-restore' }, { type: 'uploaded' }, { type: 'resumed' });
  assert.equal(done.state.phase, 'resumed');
  assert.equal(whyTooLate(done.state), 'the GPU is running');
  const over = transition(done.state, { type: 'criu-dead' });
  assert.equal(over.state.outcome, 'restored');
});

test('a failure before the gate is told there, with all let go', () => {
  const failed = walk({ type: 'fail', error });
  assert.equal(failed.state.phase, 'failed');
  const gate = transition(failed.state, { type: 'post-restore' });
  assert.deepEqual(gate.effects, ['release']);
  assert.deepEqual(transition(gate.state, { type: 'released' }).effects, ['refuse']);
});

test('the deadline counts at the gate alone', () => {
  assert.equal(walk({ type: 'deadline', error }).state.phase, 'returning');
  const late = walk({ type: 'post-restore' }, { type: 'deadline', error });
  assert.equal(late.state.phase, 'releasing');
});

test('cancelled until the GPU runs', () => {
  const cancelled = walk({ type: 'cancel', error });
  assert.equal(cancelled.state.failure, error);
  assert.equal(whyTooLate(cancelled.state), 'the restore has failed');
});
