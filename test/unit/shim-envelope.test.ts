import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { loadSync, type MessageTypeDefinition } from '@grpc/proto-loader';
import { bytesField, fieldsOf, numberField } from '../../src/protobuf.js';
import {
  decodeRequest,
  decodeResponse,
  encodeRequest,
  encodeResponse,
} from '../../src/ttrpc/envelope.js';
import { repository } from './paths.js';
import { randomFrom } from './random.js';

const definitions = loadSync(join(repository, 'proto/ttrpc.proto'), {
  keepCase: true,
  longs: String,
  defaults: true,
});

/** The codec that the contract's own description gives. */
function codec(name: string) {
  const { serialize, deserialize } = definitions[`ttrpc.${name}`] as MessageTypeDefinition<
    object,
    object
  >;
  return { encode: serialize, decode: deserialize };
}

const request = codec('Request');
const response = codec('Response');
const random = randomFrom(20261122);

function word(length: number): string {
  return Array.from({ length }, () => String.fromCodePoint(0x20 + random(0x2000))).join('');
}

const lengths = [0, 1, 127, 128, 16_383, 16_384, 100_000];

test('requests are those of the description, both ways', () => {
  for (const length of lengths) {
    const payload = Buffer.alloc(length, 0xfe);
    const call = { service: word(1 + random(200)), method: word(random(20)), payload };
    const metadata = [{ key: 'containerd-namespace-ttrpc', value: word(length) }];
    const whole = request.encode({ ...call, timeout_nano: '-9223372036854775808', metadata });
    assert.deepEqual(decodeRequest(whole), { ...call, timeoutNs: -(2n ** 63n) });
    const timeout = BigInt(random(2 ** 31)) * 1_000_000n;
    assert.deepEqual(request.decode(encodeRequest(call, timeout)), {
      ...call,
      timeout_nano: timeout.toString(),
      metadata: [],
    });
  }
});

test('responses are those of the description, both ways', () => {
  for (const length of lengths) {
    const answer = {
      code: random(2 ** 31) - 2 ** 30,
      message: word(length),
      payload: Buffer.alloc(length, 7),
    };
    const { code, message, payload } = answer;
    const whole = response.encode({ status: { code, message }, payload });
    assert.deepEqual(decodeResponse(whole), answer);
    assert.deepEqual(response.decode(encodeResponse(answer)), response.decode(whole));
  }
});

test('success needs no status', () => {
  const payload = Buffer.from('fine');
  const answer = { code: 0, message: '', payload };
  assert.deepEqual(encodeResponse(answer), response.encode({ payload }));
  assert.deepEqual(decodeResponse(response.encode({ payload })), answer);
});

test('fields that are not known are passed over, and of one that is there twice the last counts', () => {
  const bytes = Buffer.concat([
    Buffer.from('0a0161', 'hex'), // 1: "a"
    Buffer.from('f83fffffffffffffffffff01', 'hex'), // 1023: all bits of 64
    Buffer.from('310102030405060708', 'hex'), // 6: 64 bits
    Buffer.from('3d01020304', 'hex'), // 7: 32 bits
    Buffer.from('0a0162', 'hex'), // 1: "b"
  ]);
  const { service } = decodeRequest(bytes);
  assert.equal(service, 'b');
  const fields = [...fieldsOf(bytes)];
  assert.deepEqual(
    fields.map(({ number }) => number),
    [1, 1023, 6, 7, 1],
  );
  assert.equal(fields[1]?.value, 0xffffffffffffffffn);
  assert.deepEqual(Buffer.concat(fields.map(({ raw }) => raw)), bytes);
});

test('what ends in the middle of a field, or has a type that there is not, is refused', () => {
  const whole = request.encode({ service: 's', method: 'm', payload: Buffer.alloc(300) });
  const ends = new Set([...fieldsOf(whole)].map(({ raw }) => raw.byteOffset + raw.length));
  for (let length = 1; length < whole.length; length += 1) {
    const cut = whole.subarray(0, length);
    if (ends.has(cut.byteOffset + length)) decodeRequest(cut);
    else assert.throws(() => decodeRequest(cut), { code: 'E_PROTOCOL' }, `${length} bytes`);
  }
  for (const hex of [
    '00',
    '0b',
    '0c',
    '0e',
    '0f',
    `${'ff'.repeat(10)}01`,
    `0a${'ff'.repeat(9)}01`,
  ]) {
    assert.throws(() => decodeRequest(Buffer.from(hex, 'hex')), { code: 'E_PROTOCOL' }, hex);
  }
});

test('numbers of every length go both ways', () => {
  for (const value of [
    ...[1n, 127n, 128n, 16_383n, 16_384n, 2n ** 28n - 1n, 2n ** 28n],
    ...[2n ** 31n, 2n ** 32n - 1n, 2n ** 35n - 1n, 2n ** 35n, 2n ** 63n, 2n ** 64n - 1n],
  ]) {
    const bytes = numberField(0x1fffffff, value);
    assert.deepEqual(
      [...fieldsOf(bytes)].map(({ number, value: read }) => [number, read]),
      [[0x1fffffff, value]],
    );
  }
  assert.equal(numberField(1, 127).toString('hex'), '087f');
  assert.equal(numberField(1, -1n).toString('hex'), `08${'ff'.repeat(9)}01`);
  assert.equal(numberField(1, 0).length, 0);
});

test('what is no field says why', () => {
  for (const [hex, why] of [
    ['0001', 'field 0'],
    ['8080808010', 'field 536870912'],
    ['0b01020304', 'wire type 3'],
    ['0f0102030405060708', 'wire type 7'],
    ['08', 'a number beyond the end'],
    ['08ffff', 'a number beyond the end'],
    ['08ffffffffff', 'a number beyond the end'],
    [`08${'ff'.repeat(10)}01`, 'a number of more than ten bytes'],
    ['0a0201', 'a field beyond the end'],
    ['0d010203', 'a field beyond the end'],
    ['0901020304050607', 'a field beyond the end'],
  ] as const) {
    const message = `not a protobuf message: ${why}`;
    assert.throws(
      () => [...fieldsOf(Buffer.from(hex, 'hex'))],
      { code: 'E_PROTOCOL', message },
      hex,
    );
  }
});

test('a field of another type than expected is passed over', () => {
  const call = encodeRequest({ service: 's', method: 'm', payload: Buffer.from('p') });
  const odd = [1, 2, 3, 6].map((number) => numberField(number, 7));
  const { service, method, payload, timeoutNs } = decodeRequest(
    Buffer.concat([call, ...odd, bytesField(4, 'x')]),
  );
  assert.deepEqual([service, method, payload.toString(), timeoutNs], ['s', 'm', 'p', 0n]);
  const status = Buffer.concat([
    ...[numberField(1, 9), bytesField(2, 'why')],
    ...[numberField(2, 3), numberField(3, 4), bytesField(1, 'x'), bytesField(3, 'y')],
  ]);
  const response = Buffer.concat([
    ...[bytesField(1, status), bytesField(2, 'p')],
    ...[numberField(1, 3), numberField(2, 4), bytesField(3, 'y')],
  ]);
  assert.deepEqual(decodeResponse(response), {
    code: 9,
    message: 'why',
    payload: Buffer.from('p'),
  });
});
