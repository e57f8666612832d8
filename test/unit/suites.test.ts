/** How suites are counted and summed up: test/tap.sh. */

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { repository, temporaryFolder } from './paths.js';

/** The summary of one suite of Node's test runner, whose test file has this text. */
async function summaryOf(t: TestContext, text: string): Promise<string[]> {
  const folder = await temporaryFolder(t);
  const file = join(folder, 'tried.mjs');
  writeFileSync(
    file,
    `import assert from 'node:assert';\nimport { test } from 'node:test';\n${text}`,
  );
  const script = `
    . ${repository}/test/tap.sh
    LOGS=${folder}
    suite tried tap node --test-reporter=tap ${file} >/dev/null
    printf '%s\\n' "\${summary[@]}"
    totals`;
  // Node's test runner in a test of Node's test runner has no TAP.
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const { stdout } = spawnSync('bash', ['-c', script], { encoding: 'utf8', env });
  return stdout.trim().split('\n');
}

test('the summary names cases that failed themselves, with the first line of the error', async (t) => {
  const lines = await summaryOf(
    t,
    `test('sound', () => {});
     test('outer', async (t) => {
       await t.test('inner fails', () => assert.fail('what was wrong'));
       await t.test('inner is sound', () => {});
     });
     test('of two lines', () => assert.fail('first\\nsecond'));`,
  );
  assert.match(lines[0] ?? '', /^FAIL {2}tried .* 2 passed, 3 failed, 0 skipped$/);
  assert.deepEqual(lines.slice(1), [
    "        failed: inner fails: 'what was wrong'",
    '        failed: of two lines: first',
    '2 passed, 3 failed, 0 skipped',
  ]);
});

test('a suite without a failure is one line', async (t) => {
  const lines = await summaryOf(
    t,
    "test('sound', () => {}); test('later', { todo: true }, () => {});",
  );
  assert.match(lines[0] ?? '', /^ok {4}tried .* 1 passed, 0 failed, 1 skipped$/);
  assert.deepEqual(lines.slice(1), ['1 passed, 0 failed, 1 skipped']);
});
