/** The shim's parts by themselves, where a call through the proxy would not show what each of them promises. */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { Checkpoints } from '../../shim/intercept/checkpoints.js';
import type { Upstream } from '../../shim/intercept/interception.js';
import { Interceptor } from '../../shim/intercept/interceptor.js';
import { createRequest, isPaused, pausedState } from '../../shim/intercept/task-fields.js';
import { proxyFor } from '../../shim/proxy/server.js';
import { bytesField, numberField } from '../../src/protobuf.js';
import { connectTo } from '../../src/ttrpc/client.js';
import {
  type Call,
  encodeRequest,
  encodeResponse,
  type Response,
} from '../../src/ttrpc/envelope.js';
import { encodeFrame, frameType, maxPayloadBytes, setStreamId } from '../../src/ttrpc/frame.js';
import { id, service } from './intercept-world.js';
import { temporaryFolder } from './paths.js';
import { until } from './shim-host.js';
import { Caller, testServer } from './ttrpc-server.js';

const nothing = Buffer.alloc(0);
const ok: Response = { code: 0, message: '', payload: nothing };
const call: Call = {
  service,
  method: 'Checkpoint',
  payload: Buffer.concat([id, bytesField(2, '/image')]),
  timeoutNs: 0n,
};

/** Checkpoints of a paused container. `tasks`: of the helper; `asked`: of the stock shim. */
function checkpoints(onCheckpoint: (gone: () => void) => Promise<void>, afterwards = () => {}) {
  const [tasks, asked, troubles]: [string[], string[], unknown[]] = [[], [], []];
  const one = new Checkpoints('one', {
    helper: async ([task = '']) => {
      tasks.push(task);
      return encodeResponse(ok);
    },
    report: (error) => void troubles.push(error),
    temporaryFolder: '/tmp',
  });
  let gone = () => {};
  const upstream: Upstream = {
    forward: async () => ok,
    async forwardToEnd(onCallerGone, finish) {
      gone = onCallerGone;
      await onCheckpoint(gone);
      const answer = await finish(ok);
      afterwards();
      return answer;
    },
    async ask(method) {
      asked.push(method);
      return { ...ok, payload: numberField(4, 4) };
    },
  };
  const run = () => one.run(call, upstream, async (response) => response);
  const pausing: Upstream = { ...upstream, forwardToEnd: async (_gone, finish) => finish(ok) };
  const pause = () => one.pause(pausing);
  return { pause, run, tasks, asked, troubles, gone: () => gone() };
}

/** The time of performance.now() is what the test says. */
function clock(t: TestContext): { ms: number } {
  const time = { ms: 5 };
  const { now } = performance;
  t.after(() => Object.assign(performance, { now }));
  Object.assign(performance, { now: () => time.ms });
  return time;
}

test('a caller who goes twice has gone once, and one who goes after the answer has not gone', async () => {
  const twice = checkpoints(async (gone) => {
    gone();
    gone();
  });
  await twice.pause();
  assert.equal(await twice.run(), ok);
  assert.deepEqual(twice.tasks, ['cancel-checkpoint']);
  assert.deepEqual(twice.asked, ['State', 'State', 'Resume']);
  const late = checkpoints(
    async () => undefined,
    () => late.gone(),
  );
  await late.pause();
  await late.run();
  await late.run();
  assert.deepEqual([late.tasks, late.asked], [[], ['State', 'State']], 'its pause stays');
});

test('a pause belongs to its checkpoint for less than half a minute', async (t) => {
  const time = clock(t);
  for (const [ms, end] of [
    [29_999, ['State', 'Resume']],
    [30_000, []],
  ] as const) {
    const { pause, run, asked } = checkpoints(async (gone) => gone());
    await pause();
    time.ms += ms;
    await run();
    assert.deepEqual(asked, ['State', ...end], `${ms}`);
  }
});

test('calls that need nothing of ours are left to the proxy', async (t) => {
  const folder = await temporaryFolder(t);
  await writeFile(join(folder, 'config.json'), '{}');
  const interceptor = new Interceptor(
    () => assert.fail('a helper'),
    (error) => assert.fail(String(error)),
    folder,
  );
  const upstream = { forward: async () => ok } as unknown as Upstream;
  const of = (method: string, payload: Buffer) =>
    interceptor.intercept({ ...call, method, payload }, upstream);
  const exec = Buffer.concat([id, bytesField(2, 'exec')]);
  for (const method of ['Start', 'Delete', 'State', 'Pause', 'Resume']) {
    assert.equal(of(method, id), undefined, `${method} of a container of an earlier shim`);
  }
  for (const method of ['Start', 'Delete', 'State']) {
    assert.equal(of(method, exec), undefined, `${method} of a process in it`);
  }
  assert.equal(await of('Create', Buffer.concat([id, bytesField(2, folder)])), ok);
  for (const method of ['Start', 'State']) {
    assert.equal(of(method, id), undefined, `${method} of a container without an image`);
  }
});

test('a field of the wrong type changes nothing that one of the right type has said', () => {
  const odd = numberField(2, 7);
  const options = Buffer.concat([
    bytesField(1, 'containerd.runc.v1.Options'),
    bytesField(2, bytesField(6, 'crun')),
    odd,
  ]);
  const create = Buffer.concat([
    id,
    numberField(1, 3),
    bytesField(10, options),
    numberField(10, 1),
  ]);
  assert.deepEqual(createRequest(create), {
    id: 'one',
    bundle: '',
    checkpoint: '',
    outputs: [],
    binary: 'crun',
  });
  const running = Buffer.concat([numberField(4, 2), bytesField(4, 'x')]);
  assert.equal(isPaused(pausedState(running)), true);
  const paused = Buffer.concat([numberField(4, 4), bytesField(4, 'x')]);
  assert.equal(isPaused(paused), true);
});

test('a second answer to a call ends the connection of the server that gives it', async (t) => {
  const tooLong = encodeFrame(0, frameType.response, Buffer.alloc(maxPayloadBytes));
  for (const first of ['of any length', 'too long'] as const) {
    const stock = await testServer(t, () => (streamId) => {
      const answer = encodeFrame(streamId, frameType.response, nothing);
      if (first === 'of any length') return Buffer.concat([answer, answer]);
      tooLong.writeUInt32BE(maxPayloadBytes + 1, 0);
      setStreamId(tooLong, streamId);
      return Buffer.concat([tooLong, Buffer.alloc(1), answer]);
    });
    let heard = 0;
    let isClosed = false;
    const client = await connectTo(stock.path, () => {
      isClosed = true;
    });
    client.open(encodeFrame(0, frameType.request, nothing), () => void heard++);
    await until(`the end: ${first}`, () => isClosed);
    assert.equal(heard, 1);
  }
});

test('what the stock shim said before its end arrives, however late its caller reads', async (t) => {
  const payload = Buffer.alloc(maxPayloadBytes - 100, 'x');
  const stock = await testServer(t, ({ method }) => (method === 'Large' ? { payload } : undefined));
  const path = join(await temporaryFolder(t), 'proxy');
  let isSaid = false;
  const server = proxyFor(stock.path, async ({ method }, upstream) => {
    const response = await upstream.forward();
    isSaid ||= method === 'Large';
    return response;
  });
  server.listen(path);
  await once(server, 'listening');
  t.after(() => server.close());
  const caller = new Caller(path);
  caller.socket.pause();
  for (const [streamId, method] of [
    [1, 'Large'],
    [3, 'Never'],
  ] as const) {
    const bytes = encodeRequest({ service, method, payload: nothing });
    caller.socket.write(encodeFrame(streamId, frameType.request, bytes));
  }
  await until('the answer', () => isSaid && stock.calls === 2);
  stock.close();
  await delay(50); // the proxy sees it
  caller.socket.resume();
  await caller.ended;
  const lengths = caller.heard.map((line) => line.length);
  assert.deepEqual(lengths, ['1 response 0  '.length + payload.length]);
});
