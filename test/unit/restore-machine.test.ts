import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  type RestoreEvent,
  type RestoreState,
  type RestoreStep,
  transition,
  whyTooLate,
} from '../../src/session/restore/machine.js';
import { exploreAll, statesOf, walkAtRandom } from './explore.js';
import { begin, error, everyEvent, explored, happen, type RestoreWorld } from './restore-world.js';

test('whatever happens wherever: nothing resumes after a failure, and CRIU is refused when all is let go', () => {
  assert.ok(exploreAll(explored) > 60);
});

test('each state with each event, also where it cannot happen: nothing resumes after a failure or the end', () => {
  for (const { state } of statesOf(explored)) {
    for (const event of everyEvent) assertSafe(state, transition(state, event), event);
  }
});

function assertSafe(before: RestoreState, { state, effects }: RestoreStep, event: RestoreEvent) {
  const over = before.failure !== undefined || before.phase === 'over';
  const where = `${event.type} in ${JSON.stringify(before)}`;
  assert.ok(!effects.includes('resume') || !over, `resumes: ${where}`);
  assert.ok(!effects.includes('answer') || !over, `success after a failure: ${where}`);
  assert.ok(!effects.includes('release') || before.held === 'yes', `releases twice: ${where}`);
  if (before.phase === 'over') assert.equal(state.phase, 'over', `comes back: ${where}`);
  const ends = event.type === 'criu-dead' && before.phase !== 'over';
  if (ends) assert.ok(before.held !== 'yes' || effects.includes('release'), `holds on: ${where}`);
}

test('the same in 100,000 walks', () => {
  walkAtRandom(explored, 100_000, 16);
});

function walk(...path: readonly RestoreEvent[]): RestoreWorld {
  return path.reduce(happen, begin);
}

const resumed: readonly RestoreEvent[] = [
  { type: 'post-restore' },
  { type: 'uploaded' },
  { type: 'resumed' },
];

test('a restore: uploads, RESUME, the answer', () => {
  const done = walk(...resumed);
  assert.equal(done.state.phase, 'resumed');
  assert.equal(whyTooLate(done.state), 'the GPU is running');
  const over = walk(...resumed, { type: 'running' }, { type: 'criu-dead' }, { type: 'released' });
  assert.deepEqual([over.state.outcome, over.treeEnded], ['restored', false]);
});

test('CRIU is killed before the tasks run: they are ended, whatever the session has done', () => {
  for (let n = 0; n <= resumed.length; n++) {
    const left = walk(...resumed.slice(0, n), { type: 'criu-dead' });
    assert.deepEqual([left.state.outcome, left.treeEnded], ['failed', true], `after ${n} events`);
  }
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
