/** The stand-in for ssh of the fault table, as a process between two others. */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { repository, temporaryFolder } from './paths.js';

const relay = join(repository, 'dist/test/e2e/support/relay.js');

function between(t: TestContext, script: string) {
  const child = spawn(process.execPath, [relay, 'sh', '-c', script], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  t.after(() => child.kill('SIGKILL'));
  return child;
}

test('it passes on both ways, and the status', async (t) => {
  const child = between(t, 'read line; echo "got $line"; exit 7');
  let said = '';
  child.stdout.on('data', (text: Buffer) => {
    said += text;
  });
  child.stdin.write('this\n');
  const [status] = (await once(child, 'close')) as [number];
  assert.deepEqual([said, status], ['got this\n', 7]);
});

test('when it is killed either side sees the end', async (t) => {
  const folder = await temporaryFolder(t);
  const child = between(t, `echo began; cat >/dev/null; : >${folder}/end`);
  await once(child.stdout, 'data');
  child.kill('SIGKILL');
  await once(child, 'close');
  for (let left = 1200; !existsSync(join(folder, 'end')); left -= 1) {
    assert.ok(left > 0, 'the program behind it has not ended');
    await delay(50);
  }
});
