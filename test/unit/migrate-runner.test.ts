import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { Runner } from '../../src/migrate/runner.js';

interface Step {
  readonly state: string;
  readonly effects: readonly string[];
}

/** A machine whose events are "next state: effects". */
const transition = (_: string, event: string): Step => {
  const [state = '', effects = ''] = event.split(':');
  return { state, effects: effects.split(' ').filter((one) => one !== '') };
};

function runner(perform: (effect: string) => Promise<void> | void) {
  const done: string[] = [];
  const made = new Runner<string, string, string>('begin', {
    transition,
    perform: async (effect, state) => {
      await perform(effect);
      done.push(`${state} ${effect}`);
    },
  });
  return { made, done };
}

test('effects come in their order, and an event after all effects of the one before', async () => {
  const { made, done } = runner(() => turn());
  made.post('a:1 2');
  made.post('b:3');
  assert.deepEqual([made.state, done], ['begin', []]);
  await made.idle();
  assert.deepEqual(done, ['a 1', 'a 2', 'b 3']);
  made.post('c:4');
  await made.idle();
  assert.deepEqual([made.state, done.at(-1)], ['c', 'c 4']);
});

test('an event that an effect brings waits for the other effects', async () => {
  const { made, done } = runner((effect) => {
    if (effect === '1') made.post('b:3');
  });
  made.post('a:1 2');
  await made.idle();
  assert.deepEqual(done, ['a 1', 'a 2', 'b 3']);
});

test('an effect that throws is the last: neither effects nor events come after it', async () => {
  const { made, done } = runner((effect) => {
    if (effect === '2') throw new Error('no space');
  });
  made.post('a:1 2 3');
  made.post('b:4');
  await assert.rejects(made.idle(), /no space/);
  made.post('c:5');
  await assert.rejects(made.idle(), /no space/);
  assert.deepEqual([made.state, done], ['a', ['a 1']]);
});

test('an end by an effect drops what waits', async () => {
  const { made, done } = runner((effect) => {
    if (effect === '1') made.end();
  });
  made.post('a:1 2');
  made.post('b:3');
  await made.idle();
  assert.deepEqual(done, ['a 1']);
});
