import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { DumpClock } from '../../src/session/dump/clock.js';
import { Phases } from '../../src/session/phases.js';

/** A clock, and the milliseconds that it shows. */
function sample(t: TestContext) {
  const time = { ms: 1000 };
  t.mock.method(performance, 'now', () => time.ms);
  return { time, clock: new DumpClock(new Phases('prepare')) };
}

test('that the tree stands still is told once, at the first sign', () => {
  for (const first of ['freeze', 'pause'] as const) {
    let told = 0;
    const clock = new DumpClock(new Phases('prepare'), () => {
      told += 1;
    });
    clock[first]();
    assert.equal(told, 1, first);
    clock.freeze();
    clock.pause();
    assert.equal(told, 1, first);
  }
});

test('times of a checkpoint: each phase, and the freeze from the first pause to the last resume', (t) => {
  const { time, clock } = sample(t);
  clock.unpause();
  assert.equal(clock.timings()['freeze'], undefined, 'nothing was paused');
  time.ms += 1;
  clock.pause();
  time.ms += 2;
  clock.pause(); // a second process
  clock.enter('draining');
  time.ms += 4;
  assert.equal(clock.gateAt, 1007, 'not yet reached: now');
  clock.enter('gate');
  time.ms += 8;
  clock.enter('states');
  assert.equal(clock.gateAt, 1007);
  clock.enter('unsealed'); // a part of the gate
  time.ms += 16;
  clock.unpause();
  clock.enter('finishing');
  time.ms += 32;
  clock.enter('manifest');
  time.ms += 64;
  clock.enter('done');
  assert.deepEqual(clock.timings(), {
    prepare: 1000,
    read_state: 2000,
    overlap: 4000,
    gate: 24000,
    after_freeze: 32000,
    seal: 64000,
    finish: 0,
    total: 127000,
    freeze: 30000,
  });
});

test('the phase of now: its time with that of before it came back, and the time of all', (t) => {
  const time = { ms: 1000 };
  t.mock.method(performance, 'now', () => time.ms);
  const phases = new Phases('gate');
  time.ms += 1;
  phases.enter('seal');
  time.ms += 2;
  assert.deepEqual(phases.current, { name: 'seal', us: 2000, totalUs: 3000 });
  phases.enter('gate');
  time.ms += 4;
  assert.deepEqual(phases.current, { name: 'gate', us: 5000, totalUs: 7000 });
});
