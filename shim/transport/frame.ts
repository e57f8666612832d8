/**
 * ttrpc's frames, the lowest layer: bytes in, whole frames out. Numbers are those of containerd/ttrpc, PROTOCOL.md.
 *
 *      0        4        8     9      10
 *     +--------+--------+------+-------+----------------+
 *     | length | stream | type | flags | length bytes   |     both numbers big endian, unsigned
 *     +--------+--------+------+-------+----------------+
 */

import { KfdError } from '../../src/errors.js';

export const headerBytes = 10;
/** The longest payload a peer may send, bytes. */
export const maxPayloadBytes = 4 << 20;

export const frameType = { request: 1, response: 2, data: 3 } as const;

/** Bits of a frame's flags, for calls that stream. */
export const frameFlag = { remoteClosed: 1, remoteOpen: 2, noData: 4 } as const;

/** One whole frame. Its bytes are the reader's no more: they may be changed and passed on. */
export interface Frame {
  readonly streamId: number;
  readonly type: number;
  readonly flags: number;
  /** Header and payload. */
  readonly bytes: Buffer;
}

/** What a reader finds. */
export interface FrameSink {
  frame(frame: Frame): void;
  /** A frame longer than the limit: its payload is skipped, what follows is read on. */
  oversized(streamId: number, type: number, payloadBytes: number): void;
}

export function payloadOf({ bytes }: Frame): Buffer {
  return bytes.subarray(headerBytes);
}

/** A frame with its payload. Throws E_PROTOCOL when that is over the limit. */
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

/** Gives a frame another stream, in place. */
export function setStreamId(bytes: Buffer, streamId: number): void {
  bytes.writeUInt32BE(streamId, 4);
}

/** Cuts a stream of bytes, however it was split, into frames. Holds one frame of up to the limit at most. */
export class FrameReader {
  readonly #sink: FrameSink;
  /** Of the frame that has begun: its header, then the whole of it. */
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

  /** At the beginning of a frame: most often all of it is there and is handed out without a copy. */
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

  /** Adds to the frame that has begun what `chunk` has of it; returns how many bytes that was. */
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
