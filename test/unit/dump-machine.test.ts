import assert from 'node:assert/strict';
import { test } from 'node:test';
import { KfdError } from '../../src/errors.js';
import { transition, whyTooLate } from '../../src/session/dump/machine.js';
import {
  type DumpEvent,
  type DumpState,
  type DumpStep,
  initialDump,
} from '../../src/session/dump/state.js';
import { begin, type DumpWorld, error, everyEvent, explored, happen } from './dump-world.js';
import { exploreAll, statesOf, walkAtRandom } from './explore.js';

test('whatever happens: nothing stays paused, nothing is sealed after a removal, no success after a failure', () => {
  assert.ok(exploreAll(explored) > 1000);
});

test('each state with each event, possible or not: no success after a failure, no write after the end', () => {
  for (const { state } of statesOf(explored)) {
    for (const event of everyEvent) assertSafe(state, transition(state, event), event);
  }
});

function assertSafe(before: DumpState, { state, effects, answer }: DumpStep, event: DumpEvent) {
  const failed = state.phase === 'failed' || state.failure !== undefined;
  const told = answer === 'stay' || answer === 'continue' || effects.includes('answer');
  const where = `${event.type} in ${JSON.stringify(before)}`;
  assert.ok(!told || !(failed || before.phase === 'over'), `success after a failure: ${where}`);
  const writes = effects.includes('write-states') || effects.includes('write-manifest');
  const ended = ['states-written', 'manifest-written', 'write-failed'].includes(event.type);
  const free = !failed && before.phase !== 'over' && before.writing === ended;
  assert.ok(!writes || free, `writes: ${where}`);
  if (before.phase === 'over') assert.equal(state.phase, 'over', `comes back: ${where}`);
  const late = before.phase === 'over' && event.type === 'pause';
  const lets = event.type === 'criu-dead' || (event.type === 'result' && !event.success);
  const dies = before.paused && before.phase !== 'over' && lets;
  assert.equal(effects.includes('unpause'), late || dies, `unpauses: ${where}`);
}

test('the same in 100,000 walks', () => {
  walkAtRandom(explored, 100_000, 24);
});

const criuDead = (survived: boolean): DumpEvent => ({ type: 'criu-dead', survived });

function walk(...path: readonly DumpEvent[]): DumpWorld {
  return path.reduce(happen, begin);
}

const toGate: readonly DumpEvent[] = [
  { type: 'pause' },
  { type: 'begin', aside: false },
  { type: 'post-dump', processes: 1 },
];

test('a checkpoint: state files when all is drained, then the seal, then the answer', () => {
  const waiting = walk(...toGate, { type: 'released' });
  assert.equal(waiting.state.phase, 'gate');
  const sealing = [{ type: 'drained' }, { type: 'states-written' }] as const;
  assert.equal(walk(...toGate, ...sealing).state.phase, 'manifest');
  assert.equal(walk(...sealed).asked, false);
});

test('a short freeze: the gate opens when nothing reads the tree; the seal comes when it runs', () => {
  const gate = [
    { type: 'begin', aside: true },
    { type: 'post-dump', processes: 1 },
  ] as const;
  const held = walk(...gate, { type: 'released' }, { type: 'states-written' });
  assert.equal(held.asked, false);
  const step = transition(held.state, { type: 'end', success: true });
  assert.equal(step.answer, 'continue');
  const finishing = transition(step.state, { type: 'result', success: true });
  assert.equal(finishing.state.phase, 'finishing');
  const drained = transition(finishing.state, { type: 'drained' });
  assert.deepEqual(drained.effects, ['close-buffers', 'write-manifest']);
});

test('buffers of the tree are closed as soon as they have been read', () => {
  const draining = walk({ type: 'pause' }, { type: 'begin', aside: false });
  assert.deepEqual(transition(draining.state, { type: 'drained' }).effects, ['close-buffers']);
  const aside = walk({ type: 'pause' }, { type: 'begin', aside: true });
  assert.deepEqual(transition(aside.state, { type: 'released' }).effects, ['close-buffers']);
});

const sealed: readonly DumpEvent[] = [
  ...toGate,
  { type: 'drained' },
  { type: 'states-written' },
  { type: 'manifest-written' },
];
const kept: readonly DumpEvent[] = [...sealed, { type: 'end', success: true }];

test('a sealed image stays when CRIU has succeeded, and is removed when it has failed', () => {
  const done = walk(...kept, { type: 'result', success: true });
  assert.equal(done.asked, false);
  assert.equal(happen(done, { type: 'criu-dead', survived: true }).onDisk, 'sealed');
  const failed = walk(...kept, { type: 'result', success: false });
  assert.deepEqual([failed.onDisk, failed.asked, failed.paused], ['nothing', false, false]);
  assert.equal(walk(...sealed, { type: 'end', success: false }, criuDead(true)).onDisk, 'nothing');
});

test('without a result a sealed image stays if its tree has ended: nothing else has its memory', () => {
  for (const path of [sealed, kept]) {
    assert.equal(walk(...path, criuDead(true)).onDisk, 'nothing');
    assert.equal(walk(...path, criuDead(false)).onDisk, 'sealed');
  }
});

test('CRIU fails while the manifest is being written: the image is removed afterwards, and CRIU waits for it', () => {
  const writing: readonly DumpEvent[] = [
    ...toGate,
    { type: 'drained' },
    { type: 'states-written' },
  ];
  const ended = walk(
    ...writing,
    { type: 'end', success: true },
    { type: 'result', success: false },
  );
  assert.deepEqual([ended.writing, ended.asked], ['manifest', true]);
  const after = happen(ended, { type: 'manifest-written' });
  assert.deepEqual([after.onDisk, after.asked], ['nothing', false]);
});

test('GPU processes that ended in time: success, and nothing to save', () => {
  const end = walk({ type: 'post-dump', processes: 0 }, criuDead(true));
  assert.equal(end.state.outcome, 'no_gpu_state');
});

test('a process whose pause is heard of when CRIU is dead is unpaused', () => {
  const dead = walk(criuDead(true));
  assert.deepEqual(transition(dead.state, { type: 'pause' }).effects, ['unpause']);
});

test('a message at the wrong time fails the checkpoint by name', () => {
  const { state } = transition(initialDump, { type: 'result', success: true });
  assert.equal(state.failure?.code, 'E_PROTOCOL');
  assert.match(state.failure?.message ?? '', /success while reading/);
});

test('the first failure is told, and it can be cancelled as long as it is not being sealed', () => {
  const failed = walk({ type: 'fail', error }, { type: 'fail', error: new KfdError('E_IO', 'x') });
  assert.equal(failed.state.failure, error);
  assert.equal(whyTooLate(walk(...toGate).state), undefined);
  const sealing = walk(...toGate, { type: 'drained' }, { type: 'states-written' });
  assert.equal(whyTooLate(sealing.state), 'the image is complete');
  assert.equal(whyTooLate(failed.state), 'the checkpoint has failed');
});

test('CRIU failed by itself: transfers that are cancelled for that are no reason, other failures are', () => {
  const cancelled = new KfdError('E_CANCELLED', 'transfer: cancelled before it began');
  const draining = toGate.slice(0, 2);
  const gaveUp = walk(...draining, { type: 'end', success: false });
  const echo = transition(gaveUp.state, { type: 'fail', error: cancelled });
  assert.equal(echo.state.failure, undefined);
  assert.equal(transition(echo.state, { type: 'fail', error }).state.failure, error);
  assert.equal(walk(...draining, { type: 'fail', error: cancelled }).state.failure, cancelled);
});
