import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Lanes } from '../../src/session/lanes.js';

test('a lane does one thing after the other, and nothing after a failure; others go on', async () => {
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
