import assert from 'node:assert/strict';
import { test } from 'node:test';
import { KfdError } from '../../src/errors.js';
import {
  type DumpEffect,
  type DumpEvent,
  type DumpState,
  type DumpStep,
  initialDump,
  transition,
  whyTooLate,
} from '../../src/session/dump/machine.js';
import { type Explored, exploreAll, walkAtRandom } from './explore.js';

const error = new KfdError('E_GPU_IO', 'a failure');

/** The session, and what there is of the tree and of the image. */
interface World {
  readonly state: DumpState;
  readonly dead: boolean;
  readonly paused: boolean;
  readonly asked: boolean;
  readonly writing: 'states' | 'manifest' | 'none';
  readonly onDisk: 'nothing' | 'states' | 'sealed';
  readonly removed: boolean;
  readonly reported: boolean;
}

const begin: World = {
  state: initialDump,
  dead: false,
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
  { type: 'criu-dead' },
];
/** CRIU asks one thing at a time. */
const questions: readonly DumpEvent[] = [
  { type: 'post-dump', processes: 0 },
  { type: 'post-dump', processes: 2 },
  { type: 'seal' },
];

function events({ asked, writing }: World): readonly DumpEvent[] {
  const ended: DumpEvent[] =
    writing === 'none' ? [] : [{ type: `${writing}-written` }, { type: 'write-failed', error }];
  return [...anywhere, ...(asked ? [] : questions), ...ended];
}

function happen(world: World, event: DumpEvent): World {
  const step = transition(world.state, event);
  return effects(before(world, event, step.state), step);
}

/** The world as the event has made it. */
function before(world: World, event: DumpEvent, state: DumpState): World {
  const next = { ...world, state };
  switch (event.type) {
    case 'pause':
      return { ...next, paused: true };
    case 'unpaused':
      return { ...next, paused: false };
    case 'post-dump':
    case 'seal':
      return { ...next, asked: true };
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

function effects(world: World, { state, effects: all, answer }: DumpStep): World {
  const failed = state.phase === 'failed' || state.failure !== undefined;
  if (answer === 'stay') assert.equal(world.onDisk, 'sealed', 'stays paused without an image');
  if (answer === 'stay' || answer === 'go-on') assert.ok(!failed, 'go on after a failure');
  return all.reduce((now, effect) => take(now, effect, state), world);
}

function take(world: World, effect: DumpEffect, state: DumpState): World {
  const failed = state.phase === 'failed' || state.failure !== undefined;
  assert.ok(!world.reported, `${effect} after the end`);
  switch (effect) {
    case 'write-states':
    case 'write-manifest':
      assert.ok(!world.dead && !world.removed && !failed && world.writing === 'none', effect);
      return { ...world, writing: effect === 'write-states' ? 'states' : 'manifest' };
    case 'unpause':
      assert.ok(world.dead, 'unpauses what CRIU still has');
      return { ...world, paused: false };
    case 'remove-image':
    case 'remove-pages':
      assert.ok(world.dead && world.writing === 'none', 'removed while it is written');
      return { ...world, removed: true, onDisk: 'nothing' };
    case 'answer':
      assert.ok(world.asked && !failed, 'go on after a failure');
      return { ...world, asked: false };
    case 'refuse':
      assert.ok(world.asked, 'refused what nobody asked');
      assert.equal(world.writing, 'none', 'refused while it is written');
      return { ...world, asked: false };
    case 'report':
      assert.ok(world.dead && world.writing === 'none', 'told before the end');
      assert.equal(world.onDisk === 'sealed', state.outcome === 'sealed', 'outcome and image');
      return { ...world, reported: true };
    default:
      return world;
  }
}

function finish(world: World): void {
  let end = world.dead ? world : happen(world, { type: 'criu-dead' });
  if (end.writing !== 'none') end = happen(end, { type: `${end.writing}-written` });
  assert.ok(end.reported, 'never told');
  assert.ok(!end.paused, 'a process stays paused');
  assert.ok(end.onDisk !== 'states', 'half an image stays');
}

/** After the report the program ends. */
const explored: Explored<World, DumpEvent> = {
  begin,
  events: (world) => (world.reported ? [] : events(world)),
  happen,
  finish,
};

test('whatever happens: nothing stays paused, nothing is sealed after a removal, no "go on" after a failure', () => {
  assert.ok(exploreAll(explored) > 1000);
});

test('the same in 100,000 walks', () => {
  walkAtRandom(explored, 100_000, 24);
});

function walk(...path: readonly DumpEvent[]): World {
  return path.reduce(happen, begin);
}

const toGate: readonly DumpEvent[] = [
  { type: 'pause' },
  { type: 'begin', aside: false },
  { type: 'post-dump', processes: 1 },
];

test('a checkpoint: state files when all is drained, then the seal, then the answer; kept when CRIU ends well', () => {
  const waiting = walk(...toGate, { type: 'released' });
  assert.equal(waiting.state.phase, 'gate');
  const sealing = [{ type: 'drained' }, { type: 'states-written' }] as const;
  assert.equal(walk(...toGate, ...sealing).state.phase, 'manifest');
  const sealed = [...toGate, ...sealing, { type: 'manifest-written' } as const];
  assert.equal(walk(...sealed).asked, false);
  const kept = walk(...sealed, { type: 'end', success: true }, { type: 'criu-dead' });
  assert.equal(kept.state.outcome, 'sealed');
});

test('a short freeze: the gate opens when nothing reads the tree; the seal comes when it runs', () => {
  const gate = [
    { type: 'begin', aside: true },
    { type: 'post-dump', processes: 1 },
  ] as const;
  const held = walk(...gate, { type: 'released' }, { type: 'states-written' });
  assert.equal(held.asked, false);
  const step = transition(held.state, { type: 'end', success: true });
  assert.equal(step.answer, 'go-on');
  const finishing = transition(step.state, { type: 'seal' });
  assert.equal(finishing.state.phase, 'finishing');
  assert.deepEqual(transition(finishing.state, { type: 'drained' }).effects, ['write-manifest']);
});

test('an image that was sealed is removed when CRIU failed afterwards, or died before it said how it ended', () => {
  const sealed = [
    ...toGate,
    { type: 'drained' },
    { type: 'states-written' },
    { type: 'manifest-written' },
  ] as const;
  assert.equal(walk(...sealed, { type: 'criu-dead' }).onDisk, 'nothing');
  const failed = walk(...sealed, { type: 'end', success: false }, { type: 'criu-dead' });
  assert.equal(failed.onDisk, 'nothing');
});

test('GPU processes that ended in time: success, and nothing to save', () => {
  const end = walk({ type: 'post-dump', processes: 0 }, { type: 'criu-dead' });
  assert.equal(end.state.outcome, 'no_gpu_state');
});

test('a process whose pause is heard of when CRIU is dead is unpaused', () => {
  const dead = walk({ type: 'criu-dead' });
  assert.deepEqual(transition(dead.state, { type: 'pause' }).effects, ['unpause']);
});

test('a message at the wrong time fails the checkpoint by name', () => {
  const { state } = transition(initialDump, { type: 'seal' });
  assert.equal(state.failure?.code, 'E_PROTOCOL');
  assert.match(state.failure?.message ?? '', /seal while reading/);
});

test('the first failure is told, and it can be cancelled as long as it is not being sealed', () => {
  const failed = walk({ type: 'fail', error }, { type: 'fail', error: new KfdError('E_IO', 'x') });
  assert.equal(failed.state.failure, error);
  assert.equal(whyTooLate(walk(...toGate).state), undefined);
  const sealing = walk(...toGate, { type: 'drained' }, { type: 'states-written' });
  assert.equal(whyTooLate(sealing.state), 'the image is complete');
  assert.equal(whyTooLate(failed.state), 'the checkpoint has failed');
});
