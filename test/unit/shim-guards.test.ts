/** What keeps the long-lived process small and mortal: back pressure, the helper's deadline, the watch for callers. */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { serve } from '../../shim/bootstrap/serve.js';
import { helper } from '../../shim/intercept/helper.js';
import { numberField } from '../../src/protobuf.js';
import { Connection } from '../../src/ttrpc/connection.js';
import { encodeFrame } from '../../src/ttrpc/frame.js';
import { temporaryFolder } from './paths.js';
import { until } from './shim-host.js';
import { testServer } from './ttrpc-server.js';

const quiet = { frame: () => undefined, oversized: () => undefined, closed: () => undefined };

/** Hooks run first in, first out: each gives back this one. */
const node = process.execPath;

/** Both ends of a connection. */
async function ends(t: TestContext): Promise<{ near: Socket; far: Socket }> {
  const path = join(await temporaryFolder(t), 's');
  const server = createServer();
  server.listen(path);
  await once(server, 'listening');
  const far = connect(path);
  far.on('error', () => undefined);
  const [near] = (await once(server, 'connection')) as [Socket];
  t.after(() => {
    near.destroy();
    far.destroy();
    server.close();
  });
  return { near, far };
}

const large = encodeFrame(1, 1, Buffer.alloc(1 << 20));

/** Sends to a peer that does not read, until its source is paused. */
async function stalled(t: TestContext) {
  const to = await ends(t);
  const from = await ends(t);
  to.far.pause();
  const target = new Connection(to.near, quiet);
  const source = new Connection(from.near, quiet);
  target.send(large, source);
  return { to, from, target, source };
}

test('who sends more than the other side takes is read from later', async (t) => {
  const { to, from } = await stalled(t);
  assert.ok(from.near.isPaused(), 'a source that goes on fills the memory');
  to.far.on('data', () => undefined).resume();
  await until('the source is read again', () => !from.near.isPaused());
});

test('a frame that fits pauses nobody, and one of our own has no source', async (t) => {
  const { to, from, target, source } = await stalled(t);
  to.far.on('data', () => undefined).resume();
  await until('all is sent', () => !from.near.isPaused());
  target.send(encodeFrame(1, 1, Buffer.from('small')), source);
  assert.ok(!from.near.isPaused());
  to.far.pause();
  target.send(large);
  assert.ok(!from.near.isPaused());
});

test('the end of the side that does not read lets the source go on', async (t) => {
  const { to, from, target, source } = await stalled(t);
  to.far.destroy();
  await until('the source is read again', () => !from.near.isPaused());
  target.send(large, source);
  assert.ok(!from.near.isPaused(), 'nobody waits for a socket that has gone');
});

test('a connection ends once all is sent, and tells so once', async (t) => {
  const { near, far } = await ends(t);
  let closed = 0;
  const connection = new Connection(near, { ...quiet, closed: () => void closed++ });
  let bytes = 0;
  far.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
  });
  connection.send(large);
  connection.end();
  await once(far, 'close');
  assert.equal(bytes, large.length);
  await until('closed', () => closed > 0);
  connection.destroy();
  assert.equal(closed, 1);
});

test('a sink that throws ends its own connection', async (t) => {
  const { near, far } = await ends(t);
  let closed = false;
  new Connection(near, {
    ...quiet,
    frame: () => {
      throw new Error('bad input');
    },
    closed: () => {
      closed = true;
    },
  });
  far.write(encodeFrame(1, 1, Buffer.from('x')));
  await until('closed', () => closed);
});

/** Time limits of `ms` become `instead`; the rest stays. Returns how many there were. */
function hurried(t: TestContext, ms: number, instead: number): () => number {
  const real = globalThis.setTimeout;
  let count = 0;
  const quick = (work: () => void, after?: number) => {
    if (after === ms) count += 1;
    return real(work, after === ms ? instead : after);
  };
  globalThis.setTimeout = Object.assign(quick, real) as typeof setTimeout;
  t.after(() => {
    globalThis.setTimeout = real;
  });
  return () => count;
}

/** A program in place of Node.js, for helpers. */
async function instead(t: TestContext, script: string): Promise<void> {
  const path = join(await temporaryFolder(t), 'node');
  writeFileSync(path, `#!/bin/sh\n${script}\n`);
  chmodSync(path, 0o755);
  process.execPath = path;
  t.after(() => {
    process.execPath = node;
  });
}

test('a helper that hangs is ended at its limit, which begins with its input', async (t) => {
  await instead(t, 'exec sleep 60');
  const limits = hurried(t, 120_000, 200);
  let give = (_: Buffer): void => undefined;
  const input = new Promise<Buffer>((resolve) => {
    give = resolve;
  });
  const begun = performance.now();
  const answer = helper(['wait'], input);
  await delay(300);
  assert.equal(limits(), 0, 'waiting for the input has no limit');
  give(Buffer.from('x'));
  await assert.rejects(answer, { signal: 'SIGKILL' });
  assert.equal(limits(), 1);
  assert.ok(performance.now() - begun < 30_000);
});

test('a helper that has answered leaves no timer', async (t) => {
  await instead(t, 'shift; cat');
  const limits = hurried(t, 120_000, 60_000);
  const timers = () => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;
  const before = timers();
  await helper([], Buffer.from('x'));
  assert.deepEqual([limits(), timers()], [1, before]);
});

test('a helper gets its input and arguments; a status, or too long an answer, is a failure', async (t) => {
  await instead(t, 'shift; cat; for word in "$@"; do echo "$word"; done');
  const answer = await helper(['a', 'b c'], Buffer.from('input\n'));
  assert.equal(answer.toString(), 'input\na\nb c\n');
  await instead(t, 'cat >/dev/null; echo some; exit 4');
  await assert.rejects(helper([], Buffer.alloc(0)), { code: 4 });
  await instead(t, 'head -c 1048577 /dev/zero');
  await assert.rejects(helper([], Buffer.from('x')), { code: 'ERR_CHILD_PROCESS_STDIO_MAXBUFFER' });
  await instead(t, 'exec </dev/null; head -c 1048576 /dev/zero');
  // It does not read its input, which is no failure.
  assert.equal((await helper([], Buffer.alloc(1 << 20))).length, 1 << 20);
});

test('a stock shim whose callers never come is asked to end', async (t) => {
  const asked: string[] = [];
  const stock = await testServer(t, ({ service, method, payload }) => {
    if (!service.includes('v3')) return { code: 12, message: 'unimplemented' };
    asked.push(method);
    return { payload: method === 'Connect' ? numberField(1, process.pid) : payload };
  });
  const bundle = join(await temporaryFolder(t), 'bundle');
  mkdirSync(bundle);
  const before = process.cwd();
  process.chdir(bundle);
  t.after(() => process.chdir(before));
  hurried(t, 30_000, 50);
  const { serving } = await serve(Buffer.from(`unix://${stock.path}`), 'one', () => undefined);
  await until('Shutdown', () => asked.includes('Shutdown'));
  assert.deepEqual(asked, ['Connect', 'Shutdown']);
  stock.close();
  await serving?.ended;
});
