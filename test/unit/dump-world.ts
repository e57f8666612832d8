/** The machine of a checkpoint among everything that its decisions affect: the tree, the image, CRIU. */

import assert from 'node:assert/strict';
import { KfdError } from '../../src/errors.js';
import { transition } from '../../src/session/dump/machine.js';
import {
  type DumpEffect,
  type DumpEvent,
  type DumpState,
  type DumpStep,
  initialDump,
} from '../../src/session/dump/state.js';
import type { Explored } from './explore.js';

export const error = new KfdError('E_GPU_IO', 'a failure');

/** The session, and what there is of the tree and of the image. */
export interface DumpWorld {
  readonly state: DumpState;
  readonly dead: boolean;
  /** CRIU has let the tree go, and is about to end. */
  readonly over: boolean;
  readonly paused: boolean;
  readonly asked: boolean;
  readonly writing: 'states' | 'manifest' | 'none';
  readonly onDisk: 'nothing' | 'states' | 'sealed';
  readonly removed: boolean;
  readonly reported: boolean;
}

export const begin: DumpWorld = {
  state: initialDump,
  dead: false,
  over: false,
  paused: false,
  asked: false,
  writing: 'none',
  onDisk: 'nothing',
  removed: false,
  reported: false,
};

const anywhere: readonly DumpEvent[] = [
  { type: 'pause' },
  { type: 'begin', aside: false },
  { type: 'begin', aside: true },
  { type: 'released' },
  { type: 'drained' },
  { type: 'end', success: true },
  { type: 'end', success: false },
  { type: 'unpaused' },
  { type: 'fail', error },
  { type: 'cancel', error },
  { type: 'criu-dead', survived: true },
  { type: 'criu-dead', survived: false },
];
/** CRIU asks one thing at a time. */
const questions: readonly DumpEvent[] = [
  { type: 'post-dump', processes: 0 },
  { type: 'post-dump', processes: 2 },
  { type: 'result', success: true },
  { type: 'result', success: false },
];

/** Every event, whether it can happen or not. */
export const everyEvent: readonly DumpEvent[] = [
  ...anywhere,
  ...questions,
  { type: 'states-written' },
  { type: 'manifest-written' },
  { type: 'write-failed', error },
];

function events({ asked, writing }: DumpWorld): readonly DumpEvent[] {
  const ended: DumpEvent[] =
    writing === 'none' ? [] : [{ type: `${writing}-written` }, { type: 'write-failed', error }];
  return [...anywhere, ...(asked ? [] : questions), ...ended];
}

export function happen(world: DumpWorld, event: DumpEvent): DumpWorld {
  const step = transition(world.state, event);
  return effects(before(world, event, step.state), step);
}

/** The world as the event has made it. */
function before(world: DumpWorld, event: DumpEvent, state: DumpState): DumpWorld {
  const next = { ...world, state };
  switch (event.type) {
    case 'pause':
      return { ...next, paused: true };
    case 'unpaused':
      return { ...next, paused: false };
    case 'post-dump':
      return { ...next, asked: true };
    case 'result':
      return { ...next, asked: true, over: true };
    case 'states-written':
      assert.ok(!world.removed, 'state files appear in an image that was removed');
      return { ...next, writing: 'none', onDisk: 'states' };
    case 'manifest-written':
      assert.ok(!world.removed, 'sealed after it was removed');
      return { ...next, writing: 'none', onDisk: 'sealed' };
    case 'write-failed':
      return { ...next, writing: 'none' };
    case 'criu-dead':
      return { ...next, dead: true };
    default:
      return next;
  }
}

function effects(world: DumpWorld, { state, effects: all, answer }: DumpStep): DumpWorld {
  const failed = state.phase === 'failed' || state.failure !== undefined;
  if (answer === 'stay') assert.equal(world.onDisk, 'sealed', 'stays paused without an image');
  if (answer === 'stay' || answer === 'continue') assert.ok(!failed, 'success after a failure');
  return all.reduce((now, effect) => take(now, effect, state), world);
}

function take(world: DumpWorld, effect: DumpEffect, state: DumpState): DumpWorld {
  const failed = state.phase === 'failed' || state.failure !== undefined;
  assert.ok(!world.reported, `${effect} after the end`);
  switch (effect) {
    case 'write-states':
    case 'write-manifest':
      assert.ok(!world.dead && !world.removed && !failed && world.writing === 'none', effect);
      return { ...world, writing: effect === 'write-states' ? 'states' : 'manifest' };
    case 'unpause':
      assert.ok(world.dead || world.over, 'unpauses what CRIU still has');
      return { ...world, paused: false };
    case 'remove-image':
      assert.ok(world.dead || world.over, 'removed while CRIU writes there');
      assert.ok(world.writing === 'none', 'removed while it is written');
      return { ...world, removed: true, onDisk: 'nothing' };
    case 'answer':
      assert.ok(world.asked && !failed, 'success after a failure');
      return { ...world, asked: false };
    case 'refuse':
      assert.ok(world.asked, 'refused what nobody asked');
      assert.equal(world.writing, 'none', 'refused while it is written');
      return { ...world, asked: false };
    case 'drop-question':
      return { ...world, asked: false };
    case 'report':
      assert.ok(world.dead && world.writing === 'none', 'told before the end');
      assert.equal(world.onDisk === 'sealed', state.outcome === 'sealed', 'outcome and image');
      return { ...world, reported: true };
    default:
      return world;
  }
}

function finish(world: DumpWorld): void {
  let end = world.dead ? world : happen(world, { type: 'criu-dead', survived: true });
  if (end.writing !== 'none') end = happen(end, { type: `${end.writing}-written` });
  assert.ok(end.reported, 'never told');
  assert.ok(!end.paused, 'a process stays paused');
  assert.ok(end.onDisk !== 'states', 'half an image stays');
}

/** After the report the program ends. */
export const explored: Explored<DumpWorld, DumpEvent> = {
  begin,
  events: (world) => (world.reported ? [] : events(world)),
  happen,
  finish,
};
