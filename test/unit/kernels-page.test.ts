import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { command, kernelsPage } from './kernels-page.js';
import { repository } from './paths.js';

test('docs/kernels.md is what the table says', async () => {
  const page = await readFile(join(repository, 'docs/kernels.md'), 'utf8');
  assert.equal(page, kernelsPage(), `made by: ${command}`);
});
