/**
 * Fields in protobuf's wire format (protobuf.dev, "Encoding"). Own code, because the long-lived process of the shim
 * only needs a few fields, and must forward all other bytes unchanged. A decoder of whole messages
 * (proto-loader) would double the memory of this process.
 */

import { KfdError } from './errors.js';

/** The wire types in use. 3 and 4 are groups, which only proto2 has. */
const wireType = { varint: 0, fixed64: 1, bytes: 2, fixed32: 5 } as const;

/** A field of a message. Varints are numbers, all other values are bytes. */
export interface Field {
  readonly number: number;
  readonly value: bigint | Buffer;
  /** All bytes of the field, with its number and wire type. */
  readonly raw: Buffer;
}

/** The fields of a message in their order. Throws E_PROTOCOL when the bytes are not a message. */
export function* fieldsOf(message: Buffer): Generator<Field> {
  let at = 0;
  while (at < message.length) {
    const begin = at;
    const key = varint(message, at);
    at = key.end;
    const type = Number(key.value & 7n);
    const number = Number(key.value >> 3n);
    if (number < 1 || number > 0x1fffffff) throw damaged(`field ${number}`);
    if (type === wireType.varint) {
      const { value, end } = varint(message, at);
      at = end;
      yield { number, value, raw: message.subarray(begin, end) };
      continue;
    }
    let length = type === wireType.fixed64 ? 8n : 4n;
    if (type === wireType.bytes) {
      const prefix = varint(message, at);
      length = prefix.value;
      at = prefix.end;
    } else if (type !== wireType.fixed64 && type !== wireType.fixed32) {
      throw damaged(`wire type ${type}`);
    }
    if (length > BigInt(message.length - at)) throw damaged('a field beyond the end');
    const end = at + Number(length);
    yield { number, value: message.subarray(at, end), raw: message.subarray(begin, end) };
    at = end;
  }
}

/** Value and end of a varint of up to ten bytes. */
function varint(message: Buffer, from: number): { value: bigint; end: number } {
  let low = 0;
  // Most varints are short, so BigInt is used above 28 bits only.
  for (let i = 0; i < 4; i += 1) {
    const byte = message[from + i];
    if (byte === undefined) throw damaged('a number beyond the end');
    low |= (byte & 0x7f) << (7 * i);
    if (byte < 0x80) return { value: BigInt(low), end: from + i + 1 };
  }
  let value = BigInt(low);
  for (let i = 4; i < 10; i += 1) {
    const byte = message[from + i];
    if (byte === undefined) throw damaged('a number beyond the end');
    value |= BigInt(byte & 0x7f) << BigInt(7 * i);
    if (byte < 0x80) return { value: BigInt.asUintN(64, value), end: from + i + 1 };
  }
  throw damaged('a number of more than ten bytes');
}

function damaged(what: string): KfdError {
  return new KfdError('E_PROTOCOL', `not a protobuf message: ${what}`);
}

/** A string or bytes field. proto3 omits an empty one. */
export function bytesField(number: number, value: Buffer | string): Buffer {
  const bytes = typeof value === 'string' ? Buffer.from(value) : value;
  if (bytes.length === 0) return bytes;
  return Buffer.concat([key(number, wireType.bytes), varintBytes(BigInt(bytes.length)), bytes]);
}

/** A field of an unsigned number, or of a signed one of 64 bits. proto3 omits zero. */
export function numberField(number: number, value: bigint | number): Buffer {
  if (BigInt(value) === 0n) return Buffer.alloc(0);
  return Buffer.concat([key(number, wireType.varint), varintBytes(BigInt(value))]);
}

function key(number: number, type: number): Buffer {
  return varintBytes((BigInt(number) << 3n) | BigInt(type));
}

function varintBytes(value: bigint): Buffer {
  const bytes: number[] = [];
  let rest = BigInt.asUintN(64, value);
  while (rest > 0x7fn) {
    bytes.push(Number(rest & 0x7fn) | 0x80);
    rest >>= 7n;
  }
  bytes.push(Number(rest));
  return Buffer.from(bytes);
}
