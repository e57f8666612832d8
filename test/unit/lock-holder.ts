import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { TestContext } from 'node:test';

const lockModule = new URL('../../src/os/lock.js', import.meta.url).href;

/** Another process that takes a lock of src/os/lock.ts and keeps it. */
export async function holder(t: TestContext, path: string) {
  const code = `import { Lock } from '${lockModule}';
    const lock = await Lock.tryTake('${path}');
    console.log(lock === undefined ? 'busy' : 'taken');
    setInterval(() => lock?.fd, 1000);`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', code], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.after(() => child.kill('SIGKILL'));
  const [said] = (await once(child.stdout, 'data')) as [Buffer];
  assert.equal(String(said), 'taken\n');
  return child;
}
