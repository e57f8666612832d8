import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { secondsLeft, withDeadline } from '../../src/session/restore/deadline.js';

/** The program began `seconds` ago. */
function runningFor(t: TestContext, seconds: number): void {
  const real = performance.now;
  performance.now = () => seconds * 1000;
  t.after(() => {
    performance.now = real;
  });
}

test('the time that is left counts from the start of the program', (t) => {
  runningFor(t, 150);
  assert.equal(secondsLeft(200), 50);
  assert.equal(secondsLeft(200, 60), 60);
  assert.equal(secondsLeft(100), 0);
});

test('a deadline that has passed while the program ran is over', async (t) => {
  runningFor(t, 199.99);
  const never = new Promise<void>(() => undefined);
  await assert.rejects(withDeadline(200, 'the uploads have not ended', never), {
    code: 'E_TIMEOUT',
    message: 'the uploads have not ended 200 s after the restore began',
    hint: /gate_timeout_s/,
  });
});

test('a deadline is over when the seconds that are left have passed, and not before', async (t) => {
  runningFor(t, 1);
  t.mock.timers.enable({ apis: ['setTimeout'] });
  let over = false;
  const never = new Promise<void>(() => undefined);
  const waited = assert.rejects(withDeadline(200, 'late', never), { code: 'E_TIMEOUT' });
  void waited.then(() => {
    over = true;
  });
  t.mock.timers.tick(198_999);
  await new Promise(setImmediate);
  assert.equal(over, false);
  t.mock.timers.tick(1);
  await waited;
});

test('work in time, or work that fails, is its own answer, and no timer stays', async (t) => {
  runningFor(t, 1);
  const timers = () =>
    process.getActiveResourcesInfo().filter((resource) => resource === 'Timeout').length;
  const before = timers();
  await withDeadline(1000, 'late', Promise.resolve());
  await assert.rejects(withDeadline(1000, 'late', Promise.reject(new Error('own'))), /own/);
  assert.equal(timers(), before);
});
