/** The payloads of ttrpc's request and response frames. */

import { bytesField, fieldsOf, numberField } from '../protobuf.js';

export { statusCode } from '../rpc-status.js';

export interface Request {
  readonly service: string;
  readonly method: string;
  readonly payload: Buffer;
}

/** A request that has come. */
export interface Call extends Request {
  /** How long the caller waits, nanoseconds. 0: without limit. Negative: no longer. */
  readonly timeoutNs: bigint;
}

export interface Response {
  /** A google.rpc.Code. 0 is success. */
  readonly code: number;
  readonly message: string;
  readonly payload: Buffer;
}

const nothing: Buffer = Buffer.alloc(0);

/** Throws E_PROTOCOL. */
export function decodeRequest(bytes: Buffer): Call {
  let service = '';
  let method = '';
  let payload = nothing;
  let timeoutNs = 0n;
  for (const { number, value } of fieldsOf(bytes)) {
    if (typeof value === 'bigint') {
      if (number === 4) timeoutNs = BigInt.asIntN(64, value);
      continue;
    }
    if (number === 1) service = value.toString();
    if (number === 2) method = value.toString();
    if (number === 3) payload = value;
  }
  return { service, method, payload, timeoutNs };
}

/** `timeoutNs`: the server may give up after this many nanoseconds. 0: never. */
export function encodeRequest({ service, method, payload }: Request, timeoutNs = 0n): Buffer {
  return Buffer.concat([
    bytesField(1, service),
    bytesField(2, method),
    bytesField(3, payload),
    numberField(4, timeoutNs),
  ]);
}

/** The same request with another payload. Metadata and deadline stay. Throws E_PROTOCOL. */
export function withPayload(request: Buffer, payload: Buffer): Buffer {
  const others = [...fieldsOf(request)].filter(({ number }) => number !== 3);
  return Buffer.concat([...others.map(({ raw }) => raw), bytesField(3, payload)]);
}

/** The same request without a deadline. Throws E_PROTOCOL. */
export function withoutDeadline(request: Buffer): Buffer {
  const others = [...fieldsOf(request)].filter(({ number }) => number !== 4);
  return Buffer.concat(others.map(({ raw }) => raw));
}

/** Throws E_PROTOCOL. */
export function decodeResponse(bytes: Buffer): Response {
  let code = 0;
  let message = '';
  let payload = nothing;
  for (const { number, value } of fieldsOf(bytes)) {
    if (typeof value === 'bigint') continue;
    if (number === 2) payload = value;
    if (number !== 1) continue;
    for (const part of fieldsOf(value)) {
      if (part.number === 1 && typeof part.value === 'bigint') {
        code = Number(BigInt.asIntN(32, part.value));
      }
      if (part.number === 2 && typeof part.value !== 'bigint') message = part.value.toString();
    }
  }
  return { code, message, payload };
}

export function encodeResponse({ code, message, payload }: Response): Buffer {
  const status = Buffer.concat([numberField(1, BigInt(code)), bytesField(2, message)]);
  return Buffer.concat([bytesField(1, status), bytesField(2, payload)]);
}
