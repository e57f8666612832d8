/**
 * Frames of ttrpc, the lowest layer. The numbers are from PROTOCOL.md of containerd/ttrpc.
 *
 *      0        4        8     9      10
 *     +--------+--------+------+-------+----------------+
 *     | length | stream | type | flags | length bytes   |     both numbers big endian, unsigned
 *     +--------+--------+------+-------+----------------+
 */

import { KfdError } from '../errors.js';

export const headerBytes = 10;
/** The longest payload a peer may send, bytes. */
export const maxPayloadBytes = 4 << 20;

export const frameType = { request: 1, response: 2, data: 3 } as const;

/** Bits of a frame's flags, for calls that stream. */
export const frameFlag = { remoteClosed: 1, remoteOpen: 2, noData: 4 } as const;

/** One whole frame. The receiver owns its bytes and may change them. */
export interface Frame {
  readonly streamId: number;
  readonly type: number;
  readonly flags: number;
  /** Header and payload. */
  readonly bytes: Buffer;
}

/** Receives what a reader finds. */
export interface FrameSink {
  frame(frame: Frame): void;
  /** A frame is longer than the limit. The reader skips its payload and continues. */
  oversized(streamId: number, type: number, payloadBytes: number): void;
}

export function payloadOf({ bytes }: Frame): Buffer {
  return bytes.subarray(headerBytes);
}

/** Makes a frame. Throws E_PROTOCOL when the payload is over the limit. */
export function encodeFrame(
  streamId: number,
  type: number,
  payload: Buffer,
  flags: number = 0,
): Buffer {
  if (payload.length > maxPayloadBytes) {
    throw new KfdError(
      'E_PROTOCOL',
      `ttrpc: a message of ${payload.length} bytes is over the limit`,
    );
  }
  const bytes = Buffer.allocUnsafe(headerBytes + payload.length);
  bytes.writeUInt32BE(payload.length, 0);
  bytes.writeUInt32BE(streamId, 4);
  bytes[8] = type;
  bytes[9] = flags;
  payload.copy(bytes, headerBytes);
  return bytes;
}

/** Changes the stream number of a frame, in place. */
export function setStreamId(bytes: Buffer, streamId: number): void {
  bytes.writeUInt32BE(streamId, 4);
}

/** Splits a stream of bytes into frames. Holds at most one frame, and that one is not over the limit. */
export class FrameReader {
  readonly #sink: FrameSink;
  /** The frame that has begun: first its header, then all of it. */
  #partial: Buffer = Buffer.allocUnsafe(headerBytes);
  #have = 0;
  /** Bytes of an oversized payload still to come. */
  #skip = 0;

  constructor(sink: FrameSink) {
    this.#sink = sink;
  }

  push(chunk: Buffer): void {
    let at = 0;
    while (at < chunk.length) {
      if (this.#skip > 0) {
        const skipped = Math.min(this.#skip, chunk.length - at);
        this.#skip -= skipped;
        at += skipped;
      } else if (this.#have > 0) {
        at += this.#fill(chunk, at);
      } else {
        at += this.#take(chunk, at);
      }
    }
  }

  /** Reads from the beginning of a frame. Most often the frame is complete and needs no copy. */
  #take(chunk: Buffer, at: number): number {
    if (chunk.length - at < headerBytes) return this.#fill(chunk, at);
    const length = chunk.readUInt32BE(at);
    if (length > maxPayloadBytes) {
      this.#oversized(chunk, at, length);
      return headerBytes;
    }
    const end = at + headerBytes + length;
    if (end > chunk.length) return this.#fill(chunk, at);
    this.#whole(chunk.subarray(at, end));
    return end - at;
  }

  /** Adds bytes of `chunk` to the frame that has begun. Returns how many bytes these were. */
  #fill(chunk: Buffer, at: number): number {
    const copied = chunk.copy(this.#partial, this.#have, at);
    this.#have += copied;
    if (this.#have < this.#partial.length) return copied;
    if (this.#partial.length > headerBytes) {
      this.#finish();
      return copied;
    }
    const length = this.#partial.readUInt32BE(0);
    if (length > maxPayloadBytes) {
      this.#have = 0;
      this.#oversized(this.#partial, 0, length);
    } else if (length === 0) {
      this.#finish();
    } else {
      const header = this.#partial;
      this.#partial = Buffer.allocUnsafe(headerBytes + length);
      header.copy(this.#partial);
    }
    return copied;
  }

  #finish(): void {
    const bytes = this.#partial;
    this.#partial = Buffer.allocUnsafe(headerBytes);
    this.#have = 0;
    this.#whole(bytes);
  }

  #whole(bytes: Buffer): void {
    this.#sink.frame({
      streamId: bytes.readUInt32BE(4),
      type: bytes[8] as number,
      flags: bytes[9] as number,
      bytes,
    });
  }

  #oversized(header: Buffer, at: number, length: number): void {
    this.#skip = length;
    this.#sink.oversized(header.readUInt32BE(at + 4), header[at + 8] as number, length);
  }
}
