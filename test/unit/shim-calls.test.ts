/** Calls through the proxy that end in another way than with an answer, and frames that a peer may not send. */

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { Intercept } from '../../shim/intercept/interception.js';
import { connectTo } from '../../src/ttrpc/client.js';
import { encodeRequest } from '../../src/ttrpc/envelope.js';
import {
  encodeFrame,
  type Frame,
  frameType,
  maxPayloadBytes,
  payloadOf,
} from '../../src/ttrpc/frame.js';
import { temporaryFolder } from './paths.js';
import { proxied } from './proxied.js';
import { until } from './shim-host.js';
import { type Answering, Caller, testServer } from './ttrpc-server.js';

const nothing = Buffer.alloc(0);

/** A frame whose payload is one byte over the limit. */
function oversized(streamId: number, type: number): Buffer {
  const header = encodeFrame(streamId, type, nothing);
  header.writeUInt32BE(maxPayloadBytes + 1, 0);
  return Buffer.concat([header, Buffer.alloc(maxPayloadBytes + 1)]);
}

/** What the stock shim answers to the methods that are named so; it echoes the name of others. */
const answers: Answering = ({ method }) => {
  if (method === 'Never') return undefined;
  if (method === 'Long') return (streamId) => oversized(streamId, frameType.response);
  if (method === 'Damaged') {
    return (streamId) => encodeFrame(streamId, frameType.response, Buffer.from([0xff]));
  }
  if (method === 'Stranger') {
    return (streamId) => encodeFrame(streamId + 2, frameType.response, nothing);
  }
  if (method === 'Question') return (streamId) => encodeFrame(streamId, frameType.request, nothing);
  if (method === 'Nine') return (streamId) => encodeFrame(streamId, 9, nothing);
  return { payload: Buffer.from(method) };
};

/** A caller of a proxy before that stock shim. */
async function called(t: TestContext, intercept?: Intercept) {
  const { stock, path } = await proxied(t, answers, intercept);
  const caller = new Caller(path);
  t.after(() => caller.socket.destroy());
  return { stock, caller };
}

function request(streamId: number, method: string, timeoutNs = 0n): Buffer {
  const bytes = encodeRequest({ service: 's', method, payload: nothing }, timeoutNs);
  return encodeFrame(streamId, frameType.request, bytes);
}

const forwards: Intercept = (_, upstream) => upstream.forward();
const toItsEnd: Intercept = (_, upstream) =>
  upstream.forwardToEnd(
    () => undefined,
    async (response) => response,
  );

test('an answer that is too long ends its call, and no other', async (t) => {
  for (const intercept of [() => undefined, forwards, toItsEnd]) {
    const { caller } = await called(t, intercept);
    caller.socket.write(request(1, 'Long'));
    assert.deepEqual(await caller.hear(1), ['1 response 14 the shim ended the call ']);
    caller.socket.write(encodeFrame(1, frameType.data, Buffer.from('late')));
    caller.socket.write(request(3, 'State'));
    assert.deepEqual((await caller.hear(3)).slice(1), [
      '1 response 3 stream 1: its call has ended ',
      '3 response 0  State',
    ]);
  }
});

test('a damaged answer is an error of its call when it is looked into', async (t) => {
  for (const intercept of [forwards, toItsEnd]) {
    const { caller } = await called(t, intercept);
    caller.socket.write(Buffer.concat([request(1, 'Damaged'), request(3, 'State')]));
    const heard = [...(await caller.hear(2))].sort();
    assert.match(heard[0] ?? '', /^1 response 13 KfdError: not a protobuf message: /);
    assert.equal(heard[1], '3 response 0  State');
  }
});

test('an interceptor that fails is an error of its call; one that throws is passed over', async (t) => {
  const { caller } = await called(t, ({ method }) => {
    if (method === 'Throws') throw new Error('at once');
    return Promise.reject(new Error('later'));
  });
  caller.socket.write(Buffer.concat([request(1, 'Rejects'), request(3, 'Throws')]));
  const heard = [...(await caller.hear(2))].sort();
  assert.deepEqual(heard, ['1 response 13 Error: later ', '3 response 0  Throws']);
});

test('an answer of the interceptor comes in the place of the stock shim’s', async (t) => {
  const { caller } = await called(t, async ({ method }, upstream) => {
    const response = await upstream.forward();
    return method === 'Same' ? response : { ...response, code: 7, message: 'other' };
  });
  caller.socket.write(Buffer.concat([request(1, 'Same'), request(5, 'Changed')]));
  const heard = [...(await caller.hear(2))].sort();
  assert.deepEqual(heard, ['1 response 0  Same', '5 response 7 other Changed']);
});

test('an answer that nobody has changed comes byte for byte', async (t) => {
  // The first field has a longer number than it needs, the last one is not known.
  const odd = Buffer.from('1282006178f83f01', 'hex');
  const answering: Answering = () => (streamId) => encodeFrame(streamId, frameType.response, odd);
  for (const intercept of [() => undefined, forwards, toItsEnd]) {
    const { path } = await proxied(t, answering, intercept);
    const client = await connectTo(path, () => undefined);
    const answer = await new Promise<Frame | undefined>((resolve) => {
      client.open(request(1, 'State'), resolve);
    });
    assert.deepEqual(answer && payloadOf(answer), odd);
    client.close();
  }
});

test('data of the stock shim does not end a stream', async (t) => {
  const { stock, caller } = await called(t);
  caller.socket.write(request(1, 'Never'));
  for (const [count, text] of ['one', 'two'].entries()) {
    caller.socket.write(encodeFrame(1, frameType.data, Buffer.from(text)));
    assert.equal((await caller.hear(count + 1)).at(-1), `1 data ${text}`);
  }
  assert.deepEqual(stock.data, ['one', 'two']);
});

test('a caller who leaves while its answer is finished is none who has left too early', async (t) => {
  let finish = () => {};
  const gone: string[] = [];
  let isFinishing = false;
  let isOver = false;
  const { stock, caller } = await called(t, ({ method }, upstream) =>
    upstream.forwardToEnd(
      () => gone.push(method),
      async (response) => {
        isFinishing = true;
        await new Promise<void>((resolve) => (finish = resolve));
        isOver = true;
        return response;
      },
    ),
  );
  caller.socket.write(request(1, 'State', 10n ** 12n));
  await until('an answer', () => isFinishing);
  caller.socket.destroy();
  await caller.ended;
  await delay(50); // the proxy sees it
  assert.equal(stock.connections, 1);
  finish();
  await until('the end of the upstream connection', () => stock.connections === 0);
  assert.deepEqual([isOver, gone], [true, []]);
});

test('the end of the stock shim is the end of the connection, without an answer', async (t) => {
  for (const intercept of [() => undefined, forwards, toItsEnd]) {
    const { stock, caller } = await called(t, intercept);
    caller.socket.write(request(1, 'Never'));
    await until('the call', () => stock.calls === 1);
    stock.close();
    await caller.ended;
    assert.deepEqual(caller.heard, []);
  }
});

test('a caller that sends what only servers send is cut off', async (t) => {
  for (const bytes of [
    encodeFrame(1, frameType.response, nothing),
    encodeFrame(1, 9, nothing),
    oversized(1, frameType.response),
    oversized(1, 9),
  ]) {
    const { stock, caller } = await called(t);
    caller.socket.write(bytes);
    await caller.ended;
    assert.deepEqual([caller.heard, stock.calls], [[], 0]);
    await until('the end of the upstream connection', () => stock.connections === 0);
  }
});

test('a request that is too long takes its number as any other; data takes none', async (t) => {
  const { caller } = await called(t);
  const tooLong = '8 a message of 4194305 bytes: the limit is 4194304 ';
  for (const [bytes, heard] of [
    [
      oversized(2, frameType.request),
      "2 response 3 stream 2: a caller's streams have odd numbers ",
    ],
    [oversized(3, frameType.request), `3 response ${tooLong}`],
    [request(3, 'State'), '3 response 3 stream 3: not above 3, the last one used '],
    [oversized(3, frameType.request), '3 response 3 stream 3: not above 3, the last one used '],
    [oversized(9, frameType.data), `9 response ${tooLong}`],
    [request(5, 'State'), '5 response 0  State'],
  ] as const) {
    const count = caller.heard.length;
    caller.socket.write(bytes);
    assert.equal((await caller.hear(count + 1)).at(-1), heard);
  }
});

test('a caller has gone at its deadline or with its connection, once, and not after the answer', async (t) => {
  const gone: string[] = [];
  const { stock, caller } = await called(t, ({ method }, upstream) =>
    upstream.forwardToEnd(
      () => gone.push(method),
      async (response) => response,
    ),
  );
  caller.socket.write(request(1, 'Answered'));
  await caller.hear(1);
  const longestMs = 2n ** 31n;
  const ms = 1_000_000n;
  caller.socket.write(
    Buffer.concat([
      request(3, 'Never', 0n),
      request(5, 'Never', longestMs * ms),
      request(7, 'Never', 10n ** 18n),
      request(9, 'Never', (longestMs - 1n) * ms),
      request(11, 'Never', -1n), // its time was over before
    ]),
  );
  await until('a deadline', () => gone.length > 0);
  assert.deepEqual([gone, stock.calls], [['Never'], 6]);
  caller.socket.destroy();
  await until('the end of the caller', () => gone.length > 1);
  assert.equal(gone.length, 5, 'each once, and the answered one never');
});

test('nobody at a socket is an error of Node.js', async (t) => {
  const path = join(await temporaryFolder(t), 'none');
  await assert.rejects(
    connectTo(path, () => assert.fail('it was never open')),
    { code: 'ENOENT' },
  );
});

test('a client ends the connection of a server that breaks the rules', async (t) => {
  const stock = await testServer(t, answers);
  for (const method of ['Stranger', 'Question', 'Nine']) {
    let closes = 0;
    const client = await connectTo(stock.path, () => void closes++);
    const waiting = client.call({ service: 's', method: 'Never', payload: nothing }, 60_000);
    const broken = client.call({ service: 's', method, payload: nothing }, 60_000);
    for (const [call, name] of [
      [waiting, 's/Never'],
      [broken, `s/${method}`],
    ] as const) {
      const message = `${name}: the connection ended without an answer`;
      await assert.rejects(call, { code: 'E_PROTOCOL', message });
    }
    assert.deepEqual([client.closed, closes], [true, 1]);
    let opened: unknown = 'nothing yet';
    client.open(request(1, 'State'), (frame) => {
      opened = frame;
    });
    assert.equal(opened, undefined, 'told at once');
  }
  const client = await connectTo(stock.path, () => undefined);
  const call = (method: string) => client.call({ service: 's', method, payload: nothing }, 60_000);
  await assert.rejects(call('Damaged'), { code: 'E_PROTOCOL', message: /not a protobuf message/ });
  await assert.rejects(call('Long'), { code: 'E_PROTOCOL' });
  assert.equal(client.closed, false);
  assert.equal((await call('State')).payload.toString(), 'State');
  client.close();
});
