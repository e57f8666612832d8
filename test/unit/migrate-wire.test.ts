import assert from 'node:assert/strict';
import { test } from 'node:test';
import { KfdError } from '../../src/errors.js';
import {
  controlFrame,
  FrameReader,
  frameHeader,
  greeting,
  maxFrameBytes,
} from '../../src/migrate/wire/frame.js';
import {
  decodeMessage,
  encodeMessage,
  errorOf,
  failureOf,
  type Message,
} from '../../src/migrate/wire/messages.js';

function read(...pieces: readonly (Buffer | string)[]) {
  const found: string[] = [];
  const reader = new FrameReader({
    control: (payload) => found.push(`control ${payload}`),
    content: (length) => found.push(`content ${length}`),
    bytes: (part) => found.push(`bytes ${part}`),
  });
  for (const piece of pieces) reader.push(Buffer.from(piece));
  return { found, reader };
}

const protocolError = (text: RegExp) => (error: unknown) =>
  error instanceof KfdError && error.code === 'E_PROTOCOL' && text.test(error.message);

test('frames come whole, contents as they come', () => {
  const stream = [greeting, controlFrame(Buffer.from('{}')), frameHeader('content', 3), 'abc'];
  const { found, reader } = read(...stream);
  assert.deepEqual(found, ['control {}', 'content 3', 'bytes abc']);
  assert.equal(reader.isBetweenFrames, true);
  const whole = Buffer.concat(stream.map((one) => Buffer.from(one)));
  const bytewise = read(...[...whole].map((byte) => Buffer.of(byte)));
  assert.deepEqual(bytewise.found, ['control {}', 'content 3', 'bytes a', 'bytes b', 'bytes c']);
});

test('an end within a frame is seen', () => {
  assert.equal(read(greeting, frameHeader('content', 3), 'ab').reader.isBetweenFrames, false);
  assert.equal(read(greeting, Buffer.of(0)).reader.isBetweenFrames, false);
  assert.equal(read('kfd').reader.isBetweenFrames, false);
});

test('a shell that prints, and another version, are refused with what helps', () => {
  assert.throws(() => read('Welcome to host b\n'), protocolError(/says "Welcome to host b"/));
  assert.throws(() => read('kfd-checkpoint migrate 2\n'), protocolError(/version "2", this one 1/));
  assert.throws(() => read(`kfd-checkpoint migrate ${'1'.repeat(50)}`), protocolError(/greet/));
});

test('what is no frame is refused before anything is kept for it', () => {
  const header = (length: number, ...rest: number[]) => {
    const bytes = Buffer.alloc(8);
    bytes.writeUInt32BE(length, 0);
    bytes.set(rest, 4);
    return bytes;
  };
  for (const wrong of [header(1, 3), header(1, 0), header(0, 1), header(1, 1, 0, 0, 1)])
    assert.throws(() => read(greeting, wrong), protocolError(/no frame/), wrong.toString('hex'));
  for (const [kind, number] of [['control', 1] as const, ['content', 2] as const]) {
    const longer = header(maxFrameBytes[kind] + 1, number);
    assert.throws(() => read(greeting, longer), protocolError(/too long/), kind);
    assert.throws(() => frameHeader(kind, maxFrameBytes[kind] + 1), protocolError(/too long/));
    read(greeting, header(maxFrameBytes[kind], number));
  }
});

test('messages come back as they were sent', () => {
  const id = 'a1'.repeat(16);
  const failure = { code: 'E_VRAM', message: 'gpu 0: full', hint: 'stop something' } as const;
  const messages: Message[] = [
    { type: 'question', question: { name: 'job' } },
    {
      type: 'begin',
      id,
      lease_ms: 1000,
      container: 'job',
      container_id: id + id,
      room_bytes: 1,
    },
    { type: 'rest', id, bytes: 7 },
    { type: 'grant', id },
    { type: 'revoke', id, failure },
    { type: 'failed', failure },
  ];
  for (const message of messages)
    assert.deepEqual(decodeMessage(encodeMessage(message).subarray(8)), message);
});

test('messages that nobody knows are refused by name', () => {
  const refused = (text: string, why: RegExp) =>
    assert.throws(() => decodeMessage(Buffer.from(text)), protocolError(why), text);
  refused('{"type":"grant"}', /id/);
  refused('{"type":"grant","id":"x"}', /not the id of a migration/);
  refused('{"type":"hello"}', /type/);
  refused('{"type":"begin","id":"00000000000000000000000000000000","lease_ms":0}', /lease_ms/);
  const begin = { type: 'begin', id: '0'.repeat(32), lease_ms: 1, container: 'job' };
  const whole = { ...begin, container_id: 'a'.repeat(64), room_bytes: 0 };
  refused(JSON.stringify(whole), /room_bytes/);
  refused('[', /no JSON/);
  refused('\xff', /type|JSON|whole/);
  assert.throws(() => decodeMessage(Buffer.of(0x22, 0xff, 0x22)), protocolError(/no JSON/));
});

test('an error of the other side keeps code and hint, and gets its name', () => {
  const error = new KfdError('E_VRAM', 'gpu 0: full', { hint: 'stop something' });
  const there = errorOf(failureOf(error), 'host-b');
  assert.deepEqual(
    [there.code, there.message, there.hint],
    ['E_VRAM', 'host-b: gpu 0: full', 'stop something'],
  );
  assert.equal(failureOf(new KfdError('E_IO', 'x'.repeat(9000))).message.length, 4096);
});
