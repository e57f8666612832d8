import assert from 'node:assert/strict';
import { statSync } from 'node:fs';
import { test } from 'node:test';
import { deviceId } from '../../src/os/device-id.js';

test('device numbers are packed as stat(2) gives them', () => {
  assert.equal(deviceId({ major: 1, minor: 3 }), statSync('/dev/null').rdev);
  assert.equal(deviceId({ major: 226, minor: 128 }), 0xe280);
  assert.equal(deviceId({ major: 4095, minor: 0x12345 }), 0x123fff45);
});
