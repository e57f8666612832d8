import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { Intercept } from '../../shim/intercept/interception.js';
import { Interceptor } from '../../shim/intercept/interceptor.js';
import { bytesField } from '../../src/protobuf.js';
import { connectTo } from '../../src/ttrpc/client.js';
import { encodeRequest } from '../../src/ttrpc/envelope.js';
import { encodeFrame, frameType, maxPayloadBytes } from '../../src/ttrpc/frame.js';
import { proxied } from './proxied.js';
import { randomFrom } from './random.js';
import { type Answering, Caller, type TestServer } from './ttrpc-server.js';

const echo: Answering = ({ service, method, payload }) => ({
  payload: Buffer.from(`${service}/${method}:${payload.toString()}`),
});

function request(streamId: number, method: string, payload = '', flags = 0): Buffer {
  const bytes = encodeRequest({ service: 'any.Service', method, payload: Buffer.from(payload) });
  return encodeFrame(streamId, frameType.request, bytes, flags);
}

async function until(condition: () => boolean): Promise<void> {
  for (let i = 0; i < 200 && !condition(); i += 1) await delay(5);
}

async function stockIsFree(stock: TestServer): Promise<void> {
  await until(() => stock.connections === 0);
  assert.equal(stock.connections, 0, 'connections to the stock shim are left');
}

test('calls of any service get their answers, in whatever order the stock shim gives them', async (t) => {
  const { stock, path } = await proxied(t, async (call) => {
    await delay(Number(call.payload.toString()));
    return echo(call);
  });
  const caller = new Caller(path);
  caller.socket.write(Buffer.concat([request(1, 'Slow', '60'), request(7, 'Quick', '0')]));
  assert.deepEqual(await caller.hear(2), [
    '7 response 0  any.Service/Quick:0',
    '1 response 0  any.Service/Slow:60',
  ]);
  caller.socket.destroy();
  await stockIsFree(stock);
});

test('an error of the stock shim comes as it is', async (t) => {
  const { path } = await proxied(t, () => ({ code: 12, message: 'unknown method' }));
  const caller = new Caller(path);
  caller.socket.write(request(1, 'Whatever'));
  assert.deepEqual(await caller.hear(1), ['1 response 12 unknown method ']);
  caller.socket.destroy();
});

test('data goes both ways on a stream, until it has ended', async (t) => {
  const { stock, path } = await proxied(t, ({ method }) => (method === 'Stream' ? undefined : {}));
  const caller = new Caller(path);
  // Another connection has taken numbers, and an unary call one of this one.
  const other = new Caller(path);
  other.socket.write(Buffer.concat([request(1, 'A'), request(3, 'B')]));
  await other.hear(2);
  caller.socket.write(request(5, 'Unary'));
  await caller.hear(1);
  caller.socket.write(request(11, 'Stream', '', 2));
  caller.socket.write(encodeFrame(11, frameType.data, Buffer.from('one')));
  caller.socket.write(encodeFrame(11, frameType.data, Buffer.from('two'), 1));
  assert.deepEqual((await caller.hear(4)).slice(1), [
    '11 data one',
    '11 data two',
    '11 response 0  ',
  ]);
  assert.deepEqual(stock.data, ['one', 'two']);
  caller.socket.write(encodeFrame(11, frameType.data, Buffer.from('late')));
  assert.match((await caller.hear(5))[4] ?? '', /^11 response 3 stream 11/);
  caller.socket.destroy();
  other.socket.destroy();
});

test('a number that is no new stream of a caller is refused, and the connection continues', async (t) => {
  const { path } = await proxied(t, echo);
  const caller = new Caller(path);
  caller.socket.write(
    Buffer.concat([request(5, 'A'), request(2, 'B'), request(5, 'C'), request(3, 'D')]),
  );
  caller.socket.write(request(9, 'E'));
  const heard = [...(await caller.hear(5))].sort();
  assert.match(heard[0] ?? '', /^2 response 3 /);
  assert.match(heard[1] ?? '', /^3 response 3 /);
  assert.match(heard[2] ?? '', /^5 response 0 {2}any.Service\/A/);
  assert.match(heard[3] ?? '', /^5 response 3 /);
  assert.match(heard[4] ?? '', /^9 response 0 {2}any.Service\/E/);
  caller.socket.destroy();
});

test('an oversized request is answered, not forwarded; the connection continues', async (t) => {
  const { path } = await proxied(t, echo);
  const caller = new Caller(path);
  const big = Buffer.alloc(10 + maxPayloadBytes + 1);
  request(1, 'Big').copy(big);
  big.writeUInt32BE(maxPayloadBytes + 1, 0);
  caller.socket.write(big);
  caller.socket.write(request(3, 'Small'));
  const heard = [...(await caller.hear(2))].sort();
  assert.match(heard[0] ?? '', /^1 response 8 a message of 4194305 bytes/);
  assert.match(heard[1] ?? '', /^3 response 0 /);
  caller.socket.destroy();
});

test('messages up to the limit pass, also many at once', async (t) => {
  const { path } = await proxied(t, ({ payload }) => ({
    payload: Buffer.from(`${payload.length}`),
  }));
  const client = await connectTo(path, () => undefined);
  const payload = Buffer.alloc(maxPayloadBytes - 100, 'x');
  const calls = [1, 2, 3].map(() => client.call({ service: 's', method: 'm', payload }, 10_000));
  for (const { payload: length } of await Promise.all(calls)) {
    assert.equal(length.toString(), `${payload.length}`);
  }
  client.close();
});

test('connections of callers end with the stock shim, upstream connections with their callers', async (t) => {
  const { stock, path } = await proxied(t, ({ method }) => (method === 'Wait' ? undefined : {}));
  const leaving = new Caller(path);
  leaving.socket.write(request(1, 'Wait'));
  const staying = new Caller(path);
  staying.socket.write(Buffer.concat([request(1, 'Wait'), request(3, 'State')]));
  await staying.hear(1);
  leaving.socket.destroy();
  await until(() => stock.connections === 1);
  assert.equal(stock.connections, 1);
  stock.close();
  await staying.ended;
  assert.deepEqual(staying.heard, ['3 response 0  ']);
});

test('a call that is to be finished keeps the upstream connection until its answer, without its caller', async (t) => {
  let finish: () => void = () => undefined;
  const finished = new Promise<void>((resolve) => {
    finish = resolve;
  });
  const answers: number[] = [];
  const intercept: Intercept = ({ method }, stock) => {
    if (method !== 'Restore') return undefined;
    const answer = stock.forwardToEnd(
      () => answers.push(-1),
      (response) => Promise.resolve(response),
    );
    answer.then(({ code }) => answers.push(code));
    return answer;
  };
  const large = { payload: Buffer.alloc(maxPayloadBytes - 100) };
  const { stock, path } = await proxied(
    t,
    async ({ method }) => {
      await finished;
      if (method !== 'Restore') return large;
      await delay(50);
      return {};
    },
    intercept,
  );
  const caller = new Caller(path);
  // What the others get has nowhere to go, and comes before the answer that is waited for.
  caller.socket.write(Buffer.concat([request(1, 'Wait'), request(3, 'Wait')]));
  caller.socket.write(Buffer.concat([request(5, 'Restore'), request(7, 'State')]));
  await until(() => stock.calls === 4);
  caller.socket.destroy();
  await caller.ended;
  await delay(50);
  assert.equal(stock.connections, 1, 'the stock shim would cancel the call');
  assert.deepEqual(answers, [-1], 'nobody heard of it');
  finish();
  await stockIsFree(stock);
  assert.deepEqual(answers, [-1, 0]);
});

test('nobody at the stock shim: the connection ends', async (t) => {
  const { stock, path } = await proxied(t, echo);
  stock.close();
  const caller = new Caller(path);
  caller.socket.write(request(1, 'State'));
  await caller.ended;
});

test('a call without an answer in time is given up', async (t) => {
  const { path } = await proxied(t, async (call) => {
    await delay(Number(call.payload.toString()));
    return echo(call);
  });
  const client = await connectTo(path, () => undefined);
  const call = (ms: string) =>
    client.call({ service: 's', method: 'm', payload: Buffer.from(ms) }, 100);
  await assert.rejects(call('200'), { code: 'E_TIMEOUT' });
  await delay(150); // the late answer is nobody's
  assert.equal((await call('0')).payload.toString(), 's/m:0');
  client.close();
  await assert.rejects(call('0'), { code: 'E_PROTOCOL' });
});

test('100,000 malformed frames end connections at most, never the proxy', async (t) => {
  const seed = Number(process.env['KFD_FUZZ_SEED'] ?? Date.now() & 0x7fffffff) || 1;
  t.diagnostic(`seed ${seed} (KFD_FUZZ_SEED)`);
  const random = randomFrom(seed);
  let troubles = 0;
  const interceptor = new Interceptor(
    () => Promise.reject(new Error('no helper')),
    () => {
      troubles += 1;
    },
  );
  const { stock, path } = await proxied(t, echo, (call, one) => interceptor.intercept(call, one));
  let ended = 0;
  for (let frames = 0; frames < 100_000; ) {
    const caller = new Caller(path);
    const pieces: Buffer[] = [];
    for (let i = 0; i < 500; i += 1) pieces.push(malformed(random));
    frames += pieces.length;
    const bytes = Buffer.concat(pieces);
    for (let at = 0; at < bytes.length && !caller.socket.destroyed; ) {
      const size = 1 + random(random(8) === 0 ? 20 : 8_192);
      caller.socket.write(bytes.subarray(at, at + size));
      at += size;
    }
    caller.socket.end();
    await caller.ended;
    ended += 1;
  }
  assert.equal(ended, 200);
  assert.ok(troubles > 0, 'no damaged call was intercepted');
  const sane = new Caller(path);
  sane.socket.write(request(1, 'Sane'));
  assert.deepEqual(await sane.hear(1), ['1 response 0  any.Service/Sane:']);
  sane.socket.destroy();
  await stockIsFree(stock);
});

/** A frame with something wrong, or with something right beside what is wrong. */
function malformed(random: (below: number) => number): Buffer {
  const noise = (length: number) => Buffer.from(Array.from({ length }, () => random(256)));
  const streamId = random(3) * 2 + 1 + random(1000);
  const frame =
    random(2) === 0
      ? request(streamId, 'Method', 'payload', random(8))
      : intercepted(streamId, random);
  switch (random(10)) {
    case 0: // no frame at all
      return noise(1 + random(30));
    case 1: // over the limit
      frame.writeUInt32BE(maxPayloadBytes + 1 + random(1000), 0);
      return frame;
    case 2: // a length that is not that of what follows
      frame.writeUInt32BE(random(64), 0);
      return frame;
    case 3: // a type that a caller may not use, or that there is not
      frame[8] = random(256);
      return frame;
    default: {
      // a request that is no message
      const at = 10 + random(frame.length - 10);
      frame[at] = random(256);
      return frame;
    }
  }
}

/** A call that is looked into: of a few containers, so that one call meets what another has left. */
function intercepted(streamId: number, random: (below: number) => number): Buffer {
  const methods = ['Create', 'Start', 'Checkpoint', 'State', 'Delete'];
  const fields = [
    bytesField(1, `container ${random(3)}`),
    bytesField(2, random(2) === 0 ? '' : '/not/there'),
    bytesField(8, random(2) === 0 ? '' : '/not/there/either'),
  ];
  const bytes = encodeRequest({
    service: 'containerd.task.v3.Task',
    method: methods[random(methods.length)] as string,
    payload: Buffer.concat(fields),
  });
  return encodeFrame(streamId, frameType.request, bytes);
}
