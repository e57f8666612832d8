import assert from 'node:assert/strict';
import { test } from 'node:test';
import { whyNotHostRoot } from '../../src/os/host-root.js';

test('only root of the initial user namespace is root of the host', () => {
  const whole = '         0          0 4294967295\n';
  assert.equal(whyNotHostRoot(0, whole), undefined);
  assert.equal(whyNotHostRoot(1000, whole), 'runs as user 1000');
  for (const map of [
    '         0       1000          1\n',
    '         0       1000          1\n         1     100000      65536\n',
    '         0          0      65536\n',
    '',
  ]) {
    assert.equal(whyNotHostRoot(0, map), 'runs in a user namespace', map);
  }
});
