/** The socket of a side of a migration, without a migration. */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { createConnection, createServer } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { Control, type Played } from '../../src/migrate/control.js';
import { cancelAt, statusAt, watchAt } from '../../src/migrate/control-client.js';
import { leftUs, Meter, resultOf } from '../../src/migrate/status.js';
import { temporaryFolder } from './paths.js';

const never = new AbortController().signal;
const status = {
  migration: '5c'.repeat(16),
  side: 'source',
  container: 'job',
  container_id: 'c0'.repeat(32),
  pid: 7,
  phase: 'sending',
  elapsed_us: 1,
  bytes_done: 50,
  bytes_total: 100,
  bytes_per_s: 10,
  cancelled: false,
} as const;

async function opened(t: TestContext, played: Partial<Played> = {}) {
  const path = join(await temporaryFolder(t), 'socket');
  const whole = { status: () => status, cancel: () => undefined, ...played };
  return { path, control: await Control.open(path, whole) };
}

test('a status, and the reason why a cancel comes too late', async (t) => {
  const reasons: string[] = [];
  const cancel = (reason: string) => {
    reasons.push(reason);
    return reasons.length > 1 ? 'it has gone' : undefined;
  };
  const { path, control } = await opened(t, { cancel });
  assert.deepEqual(await statusAt(path, never), { ...status, result: null });
  await cancelAt(path, 'one', never);
  await assert.rejects(cancelAt(path, 'two', never), {
    code: 'E_TOO_LATE',
    message: /it has gone$/,
  });
  assert.deepEqual(reasons, ['one', 'two']);
  await control.close(resultOf(undefined));
  await assert.rejects(statusAt(path, never), { code: 'E_NOT_FOUND' });
});

test('what is no request gets no answer and harms nobody', async (t) => {
  const { path, control } = await opened(t);
  for (const text of ['\n', '{}\n', '{"type":"cancel"}\n', 'x'.repeat(20_000)]) {
    const socket = createConnection(path);
    socket.on('error', () => undefined);
    socket.write(text);
    await once(socket.resume(), 'close');
  }
  assert.equal((await statusAt(path, never)).phase, 'sending');
  await control.close();
});

test('whoever answers with something else is not believed', async (t) => {
  const { path, control } = await opened(t, {
    status: () => ({ ...status, phase: 'x'.repeat(99) }),
  });
  await assert.rejects(statusAt(path, never), { code: 'E_PROTOCOL' });
  await control.close();
  await writeFile(path, '');
  await assert.rejects(statusAt(path, never), { code: 'E_NOT_FOUND' });
});

test('whoever is interrupted does not wait for one that never answers', async (t) => {
  const path = join(await temporaryFolder(t), 'socket');
  const cancel = new AbortController();
  // It reads, and ends only after the caller. Nothing here keeps this process: a wait without an end is seen.
  const server = createServer((socket) => {
    socket.unref();
    socket.on('error', () => undefined);
    socket.once('data', () => cancel.abort());
  });
  await new Promise<void>((resolve) => server.unref().listen(path, resolve));
  for await (const one of watchAt(path, cancel.signal)) assert.fail(JSON.stringify(one));
  assert.ok(cancel.signal.aborted);
  await assert.rejects(statusAt(path, cancel.signal), { code: 'E_CANCELLED' });
});

test('a process that ends while it is watched has its last word heard', async (t) => {
  const path = join(await temporaryFolder(t), 'socket');
  const module = new URL('../../src/migrate/control.js', import.meta.url).href;
  const code = `import { Control } from '${module}';
    const control = await Control.open('${path}', { status: () => (${JSON.stringify(status)}) });
    console.log('open');
    await new Promise((resolve) => process.stdin.once('data', resolve));
    process.stdin.destroy();
    await control.close({ success: true, code: '', message: '' });
    console.log('closed');`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', code], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  let said = '';
  child.stdout.on('data', (text: Buffer) => {
    said += text;
  });
  await once(child.stdout, 'data');
  // One that never reads keeps nobody for ever.
  const deaf = createConnection({ path, allowHalfOpen: true });
  deaf.on('error', () => undefined);
  deaf.write('{"type":"watch"}\n');
  const results: unknown[] = [];
  for await (const { result } of watchAt(path, never)) {
    if (results.length === 0) child.stdin.write('end\n');
    results.push(result);
  }
  assert.deepEqual(results.at(-1), { success: true, code: '', message: '' });
  await once(child, 'close');
  deaf.destroy();
  assert.equal(said, 'open\nclosed\n');
});

test('a rate is that of the bytes since the first look, and what is left follows', () => {
  const meter = new Meter();
  assert.deepEqual([meter.rate, meter.done, meter.total], [0, 0, 0]);
  meter.update(0, 1000, 100);
  meter.update(0, 1000, 200);
  assert.equal(meter.rate, 0);
  meter.update(200, 1000, 2100);
  // Nothing has come since: the rate stays that of what has.
  meter.update(200, 1000, 9000);
  assert.equal(meter.rate, 100);
  assert.equal(leftUs({ bytes_done: 200, bytes_total: 1000, bytes_per_s: 100 }), 8e6);
  assert.equal(leftUs({ bytes_done: 200, bytes_total: 200, bytes_per_s: 100 }), undefined);
  assert.equal(leftUs({ bytes_done: 0, bytes_total: 200, bytes_per_s: 0 }), undefined);
});

test('what is removed when it has arrived is not taken for a way back', () => {
  const meter = new Meter();
  meter.update(500, 1000, 0);
  meter.update(900, 1000, 1000);
  meter.update(0, 1000, 2000);
  assert.deepEqual([meter.rate, meter.done], [400, 900]);
});
