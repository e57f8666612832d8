import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { Lanes } from '../../src/session/contents/lanes.js';

test('a lane does one thing after the other, and nothing after a failure; others continue', async () => {
  const lanes = new Lanes();
  const begun: string[] = [];
  const work =
    (name: string, fails = false) =>
    async () => {
      begun.push(name);
      await new Promise((resolve) => setImmediate(resolve));
      if (fails) throw new Error(name);
      return name;
    };
  const first = lanes.run(0, work('a'));
  const second = lanes.run(0, work('b', true));
  const third = lanes.run(0, work('c'));
  const other = lanes.run(1, work('d'));
  assert.equal(await first, 'a');
  assert.equal(await other, 'd');
  await assert.rejects(second, { message: 'b' });
  await assert.rejects(third, { message: 'b' });
  assert.deepEqual(begun, ['a', 'd', 'b']);
});

test('closed lanes end what they do and begin nothing more', async () => {
  const lanes = new Lanes();
  let begun = 0;
  const work = async () => {
    begun += 1;
    await delay(5);
    return begun;
  };
  const first = lanes.run(0, work);
  const second = lanes.run(0, work);
  await delay(1);
  lanes.close();
  assert.equal(await first, 1);
  await assert.rejects(second, { code: 'E_CANCELLED' });
  await assert.rejects(lanes.run(1, work), { code: 'E_CANCELLED' });
  assert.equal(begun, 1);
});
