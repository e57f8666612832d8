import assert from 'node:assert/strict';
import { test } from 'node:test';
import { native } from '../../src/native.js';
import { takeState } from '../../src/session/plugin/take-state.js';

test('a state is taken out of its memfd, unless a restore would refuse it for its size', () => {
  const bytes = Buffer.from('state');
  const sent = native().memfd(bytes);
  assert.deepEqual(takeState(sent, 5), bytes);
  assert.equal(sent.fd, -1);
  const larger = native().memfd(bytes);
  assert.throws(() => takeState(larger, 4), {
    code: 'E_UNSUPPORTED_STATE',
    message: /^GPU state: 5 bytes in one process, and 4 is the most$/,
  });
  assert.equal(larger.fd, -1);
});
