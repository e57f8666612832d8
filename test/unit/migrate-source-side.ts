/** What can happen on the source's host. */

import assert from 'node:assert/strict';
import type { SourceEffect, SourceEvent, SourceState } from '../../src/migrate/protocol/source.js';
import { restartedTarget } from './migrate-target-side.js';
import {
  error,
  happenAtSource,
  type ToSource,
  type ToTarget,
  type World,
  withWord,
} from './migrate-world.js';

/** `network`: words arrive, connections can be made. `faults`: what is done there can fail. */
export function sourceSteps(world: World, network: boolean, faults: boolean): World[] {
  const { source: process, sourceDisk } = world;
  if (process === undefined) return [...engineSteps(world, faults), ...restarts(world)];
  const [effect] = process.todo;
  if (effect !== undefined) return performed(world, effect);
  const next = engineSteps(world, faults);
  const { phase } = process.state;
  if (process.link && network)
    next.push(...world.toSource.map((word) => happenAtSource(world, eventOf(word))));
  if (phase === 'asking') next.push(happenAtSource(world, { type: 'accepted' }));
  // The process has nothing more to do. Somebody mends what stands in the way, and starts it again.
  if (phase === 'stranded') next.push({ ...world, source: undefined, wantsLink: false });
  if (world.broken && process.link) next.push(happenAtSource(world, { type: 'lost', error }));
  // The margin: by then a guard has done its work.
  if (sourceDisk === 'granted' && world.over && world.guard === 'none')
    next.push(happenAtSource(world, { type: 'expired', error }));
  if (world.wantsLink && !process.link && world.target === undefined && network)
    next.push(connected(world));
  if (!faults) return next;
  const wrong = ['silent', 'fail', 'cancel'] as const;
  return [...next, ...wrong.map((type) => happenAtSource(world, { type, error }))];
}

function eventOf(word: ToSource): SourceEvent {
  return word === 'failed' ? { type: 'failed', error } : { type: word };
}

/** Somebody starts it again: whoever runs the next command, or the host's own start. */
function restarts(world: World): World[] {
  const { sourceDisk: phase, sourceBox } = world;
  if (phase === undefined || phase === 'returned') return [];
  if (phase === 'done' && sourceBox === 'forgotten') return [];
  if (sourceBox === 'stopping' || sourceBox === 'coming') return []; // waits for the engine
  const process = { state: { phase }, todo: [], link: false };
  return [happenAtSource({ ...world, source: process }, { type: 'restarted' })];
}

/** A new connection has a new process at its other end. */
function connected(world: World): World {
  const linked: World = { ...world, wantsLink: false, broken: false };
  return happenAtSource(restartedTarget(linked, world.over, true), { type: 'connected' });
}

/** What the engine does, whoever waits for it. */
function engineSteps(world: World, faults: boolean): World[] {
  const { sourceBox, failures } = world;
  const ended = (box: World['sourceBox'], event: SourceEvent, faulty = false): World => {
    const now = { ...world, sourceBox: box, failures: failures - (faulty ? 1 : 0) };
    return now.source === undefined ? now : happenAtSource(now, event);
  };
  const fails = faults && failures > 0;
  if (sourceBox === 'stopping') {
    const failed = { type: 'stop-failed', error } as const;
    const stopped = ended('stopped', { type: 'stopped' });
    return fails
      ? [stopped, ended('runs', failed, true), ended('stopped', failed, true)]
      : [stopped];
  }
  const returns = world.source?.state.phase === 'returning';
  if (sourceBox !== 'coming' && !(sourceBox === 'runs' && returns)) return [];
  const back = ended('runs', { type: 'back' });
  if (!fails || sourceBox === 'runs') return [back];
  return [back, ended('stopped', { type: 'back-failed', error }, true)];
}

function performed(world: World, effect: SourceEffect): World[] {
  const process = world.source as NonNullable<World['source']>;
  const { sourceBox } = world;
  const done: World = { ...world, source: { ...process, todo: process.todo.slice(1) } };
  const say = (word: ToTarget): World[] =>
    process.link && !world.broken
      ? [{ ...done, toTarget: withWord(world.toTarget, word) }]
      : [done];
  switch (effect) {
    case 'record':
      return [{ ...done, sourceDisk: process.state.phase }];
    case 'stop':
      assert.equal(sourceBox, 'runs', 'stopped once');
      return [{ ...done, sourceBox: 'stopping' }];
    case 'cancel-stop':
      return [done];
    case 'send':
      return say('rest');
    case 'grant':
    case 'yours':
    case 'revoke':
    case 'query':
    case 'done':
      return say(effect);
    case 'connect':
      return [{ ...done, wantsLink: true }];
    case 'bring-back':
      assert.notEqual(sourceBox, 'forgotten', 'there is something to bring back');
      return [{ ...done, sourceBox: sourceBox === 'stopped' ? 'coming' : sourceBox }];
    case 'forget':
      assert.equal(world.targetDisk, 'owned', 'the target has it');
      return [{ ...done, sourceBox: 'forgotten' }];
    case 'report':
      assertTrue(world, process.state);
      return [done];
  }
}

/** What is reported is so. */
function assertTrue({ targetDisk, sourceBox }: World, { phase, stranded }: SourceState): void {
  if (phase === 'done') assert.ok(targetDisk === 'owned' || targetDisk === 'settled');
  else if (phase === 'returned') assert.equal(sourceBox, 'runs');
  else assert.ok(phase === 'stranded' && stranded !== undefined, phase);
}
