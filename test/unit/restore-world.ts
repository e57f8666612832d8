/** The machine of a restore among everything that its decisions affect: the tree, its GPU memory, CRIU. */

import assert from 'node:assert/strict';
import { KfdError } from '../../src/errors.js';
import {
  initialRestore,
  type RestoreEffect,
  type RestoreEvent,
  type RestoreState,
  transition,
} from '../../src/session/restore/machine.js';
import type { Explored } from './explore.js';

export const error = new KfdError('E_GPU_IO', 'a failure');

/** The session, and what it holds of the tree. */
export interface RestoreWorld {
  readonly state: RestoreState;
  readonly dead: boolean;
  readonly asked: boolean;
  readonly resuming: boolean;
  /** CRIU has resumed the tasks. */
  readonly running: boolean;
  readonly treeEnded: boolean;
  readonly releasing: boolean;
  readonly released: boolean;
  readonly reported: boolean;
}

export const begin: RestoreWorld = {
  state: initialRestore,
  dead: false,
  asked: false,
  resuming: false,
  running: false,
  treeEnded: false,
  releasing: false,
  released: false,
  reported: false,
};

const anywhere: readonly RestoreEvent[] = [
  { type: 'uploaded' },
  { type: 'fail', error },
  { type: 'deadline', error },
  { type: 'cancel', error },
  { type: 'running' },
  { type: 'criu-dead' },
];

/** Every event, whether it can happen or not. */
export const everyEvent: readonly RestoreEvent[] = [
  ...anywhere,
  { type: 'post-restore' },
  { type: 'resumed' },
  { type: 'released' },
];

function events({ asked, resuming, releasing, reported }: RestoreWorld): readonly RestoreEvent[] {
  if (reported) return [];
  return [
    ...anywhere,
    ...(resuming ? [{ type: 'resumed' } as const] : []),
    ...(asked ? [] : [{ type: 'post-restore' } as const]),
    ...(releasing ? [{ type: 'released' } as const] : []),
  ];
}

export function happen(world: RestoreWorld, event: RestoreEvent): RestoreWorld {
  const { state, effects } = transition(world.state, event);
  const now: RestoreWorld = {
    ...world,
    state,
    dead: world.dead || event.type === 'criu-dead',
    asked: world.asked || event.type === 'post-restore',
    resuming: world.resuming && event.type !== 'resumed',
    running: world.running || (event.type === 'running' && !world.dead),
    releasing: world.releasing && event.type !== 'released',
    released: world.released || event.type === 'released',
  };
  return effects.reduce((next, effect) => take(next, effect, event), now);
}

function take(world: RestoreWorld, effect: RestoreEffect, event: RestoreEvent): RestoreWorld {
  const failed = world.state.failure !== undefined;
  assert.ok(!world.reported, `${effect} after the end`);
  switch (effect) {
    case 'resume':
      assert.ok(!failed && !world.dead && !world.released, 'resumed after a failure');
      return { ...world, resuming: true };
    case 'release':
      assert.ok(!world.releasing && !world.released, 'let go twice');
      return { ...world, releasing: true };
    case 'end-tree':
      assert.ok(world.dead && !world.running && !world.treeEnded, 'ends tasks that run');
      return { ...world, treeEnded: true };
    case 'answer':
      assert.ok(world.asked && !failed, 'success after a failure');
      assert.equal(event.type, 'resumed', 'success before the GPU');
      return { ...world, asked: false };
    case 'refuse':
      assert.ok(world.asked && failed && world.released, 'refused while GPU memory is held');
      return { ...world, asked: false };
    case 'report':
      assert.ok(world.dead && world.released, 'told before the end');
      assert.ok(world.running || world.treeEnded, 'tasks stay that nobody resumes');
      return { ...world, reported: true };
    default:
      return world;
  }
}

function finish(world: RestoreWorld): void {
  let end = world.resuming ? happen(world, { type: 'resumed' }) : world;
  if (!end.dead) end = happen(end, { type: 'criu-dead' });
  if (end.releasing) end = happen(end, { type: 'released' });
  assert.ok(end.reported, 'never told');
}

export const explored: Explored<RestoreWorld, RestoreEvent> = { begin, events, happen, finish };
