/** What can happen on the target's host, guard and deadline included. */

import assert from 'node:assert/strict';
import type { TargetEffect, TargetEvent } from '../../src/migrate/protocol/target.js';
import {
  cut,
  error,
  happenAtTarget,
  type ToSource,
  type ToTarget,
  type World,
  withWord,
} from './migrate-world.js';

/** `network`: words arrive. `faults`: what is done there can fail. */
export function targetSteps(world: World, network: boolean, faults: boolean): World[] {
  const next: World[] = [];
  if (world.asked && !world.over) next.push({ ...world, over: true });
  if (world.guard === 'armed' && world.over) next.push(guarded(world));
  const { target: process, targetBox } = world;
  if (process === undefined) {
    // What the killed process began comes to its end.
    return targetBox === 'starting' ? [...next, { ...world, targetBox: 'runs' }] : next;
  }
  const [effect] = process.todo;
  if (effect !== undefined) return [...next, perform(world, effect)];
  if (process.link && network) {
    const events = world.toTarget.map((word) => eventOf(word, world));
    next.push(...events.flatMap((event) => (event ? [happenAtTarget(world, event)] : [])));
  }
  if (world.broken && process.link) next.push(happenAtTarget(world, { type: 'lost', error }));
  if (world.over) next.push(happenAtTarget(world, { type: 'expired', error }));
  const starts = targetBox === 'starting' && process.state.phase === 'starting';
  if (starts) next.push(happenAtTarget({ ...world, targetBox: 'runs' }, { type: 'started' }));
  if (!faults) return next;
  next.push(happenAtTarget(world, { type: 'fail', error }));
  if (starts && world.failures > 0) {
    const failed = { ...world, failures: world.failures - 1 };
    next.push(happenAtTarget(failed, { type: 'start-failed', error }));
  }
  return next;
}

function eventOf(word: ToTarget, { over, target: process }: World): TargetEvent | undefined {
  switch (word) {
    case 'rest':
      return process?.state.phase === 'receiving' ? { type: 'received' } : undefined;
    case 'grant':
      return { type: 'grant', late: over };
    case 'revoke':
      return { type: 'revoke', error };
    default:
      return { type: word };
  }
}

/** Another process, which goes on with what is recorded. */
export function restartedTarget(world: World, over: boolean, link: boolean): World {
  const container = world.targetBox === 'starting' ? 'runs' : world.targetBox;
  const { targetDisk: disk } = world;
  // What is settled has no record.
  const phase = disk === undefined || disk === 'settled' ? 'ended' : disk;
  const process = { state: { phase }, todo: [], link };
  const event = { type: 'restarted', container, over, error } as const;
  return happenAtTarget({ ...world, target: process }, event);
}

/** The guard kills the process, and is the next one, without a connection. It ends when it has nothing to do. */
function guarded(world: World): World {
  const alone = restartedTarget({ ...world, guard: 'acting' }, true, false);
  const process = alone.target as NonNullable<World['target']>;
  const next: World = { ...alone, target: { ...process, todo: [...process.todo, 'leave'] } };
  return world.target?.link === true ? cut(next) : next;
}

function perform(world: World, effect: TargetEffect): World {
  const process = world.target as NonNullable<World['target']>;
  const { targetBox, guard } = world;
  const done: World = { ...world, target: { ...process, todo: process.todo.slice(1) } };
  const say = (word: ToSource): World =>
    process.link && !world.broken ? { ...done, toSource: withWord(world.toSource, word) } : done;
  switch (effect) {
    case 'record':
      // The deadline is fixed and recorded before the guard reads it.
      return { ...done, targetDisk: process.state.phase, asked: true };
    case 'arm':
      return { ...done, guard: 'armed' };
    case 'disarm':
      return { ...done, guard: guard === 'armed' ? 'none' : guard };
    case 'start':
      return { ...done, targetBox: 'starting' };
    case 'pause':
      return { ...done, targetBox: targetBox === 'runs' ? 'paused' : targetBox };
    case 'unpause':
      return { ...done, targetBox: targetBox === 'paused' ? 'runs' : targetBox };
    case 'remove':
      assert.notEqual(world.sourceBox, 'forgotten', 'the last copy is kept');
      assert.notEqual(world.targetDisk, 'settled', 'what is settled stays');
      return { ...done, targetBox: 'none' };
    case 'ask':
      assert.equal(guard, 'armed', 'no lease without a guard');
      return say('ready');
    case 'say-resumed':
      return say('resumed');
    case 'say-taken':
      return say('taken');
    case 'say-failed':
      assert.equal(targetBox, 'none', 'failed means gone');
      return say('failed');
    case 'leave':
      return { ...world, target: undefined, guard: guard === 'acting' ? 'none' : guard };
  }
}
