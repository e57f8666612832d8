import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { repository } from './paths.js';
import { statesPage } from './states-page.js';

test('src/session/states.md shows what the machines do', () => {
  const page = readFileSync(join(repository, 'src/session/states.md'), 'utf8');
  assert.equal(page, statesPage(), 'its first lines say how to make it again');
});
