/**
 * One connection of containerd's and the one to the stock shim that belongs to it: every frame goes on as it came, under the
 * number its stream has there.
 */

import type { Socket } from 'node:net';
import type { Client } from '../transport/client.js';
import { Connection } from '../transport/connection.js';
import { encodeResponse, statusCode } from '../transport/envelope.js';
import {
  encodeFrame,
  type Frame,
  frameType,
  maxPayloadBytes,
  setStreamId,
} from '../transport/frame.js';

export class Link {
  readonly #down: Connection;
  readonly #up: Client;
  /** Stream of the caller to stream of the child, while the call lasts. */
  readonly #streams = new Map<number, number>();
  #lastId = 0;

  /** `up` is this link's alone, and ends with it. */
  constructor(down: Socket, up: Client) {
    this.#up = up;
    this.#down = new Connection(down, {
      frame: (frame) => this.#fromCaller(frame),
      oversized: (streamId, type, bytes) => this.#oversized(streamId, type, bytes),
      closed: () => up.close(),
    });
  }

  /** After the child's end of the link. */
  end(): void {
    this.#down.end();
  }

  #fromCaller(frame: Frame): void {
    if (frame.type === frameType.request) this.#request(frame);
    else if (frame.type === frameType.data) this.#data(frame);
    else this.#down.destroy();
  }

  #request(frame: Frame): void {
    const { streamId } = frame;
    if (!this.#isNew(streamId)) return;
    const upId = this.#up.open(
      frame.bytes,
      (answer) => this.#toCaller(streamId, answer),
      this.#down,
    );
    this.#streams.set(streamId, upId);
  }

  /** As the stock shim would take it: what is a new stream there has to be one here. */
  #isNew(streamId: number): boolean {
    if (streamId % 2 === 0) {
      this.#refuse(streamId, `stream ${streamId}: those of a caller are odd`);
      return false;
    }
    if (streamId <= this.#lastId) {
      this.#refuse(
        streamId,
        `stream ${streamId}: not above ${this.#lastId}, which was used before`,
      );
      return false;
    }
    this.#lastId = streamId;
    return true;
  }

  #data(frame: Frame): void {
    const upId = this.#streams.get(frame.streamId);
    if (upId === undefined) {
      this.#refuse(frame.streamId, `stream ${frame.streamId}: its call has ended`);
      return;
    }
    setStreamId(frame.bytes, upId);
    this.#up.send(frame.bytes, this.#down);
  }

  #toCaller(streamId: number, answer: Frame | undefined): void {
    if (answer === undefined) {
      this.#streams.delete(streamId);
      this.#answer(streamId, statusCode.unavailable, 'the shim ended the call');
      return;
    }
    if (answer.type === frameType.response) this.#streams.delete(streamId);
    setStreamId(answer.bytes, streamId);
    this.#down.send(answer.bytes, this.#up.connection);
  }

  #oversized(streamId: number, type: number, payloadBytes: number): void {
    if (type !== frameType.request && type !== frameType.data) {
      this.#down.destroy();
      return;
    }
    if (type === frameType.request && !this.#isNew(streamId)) return;
    const text = `a message of ${payloadBytes} bytes: the limit is ${maxPayloadBytes}`;
    this.#answer(streamId, statusCode.resourceExhausted, text);
  }

  #refuse(streamId: number, message: string): void {
    this.#answer(streamId, statusCode.invalidArgument, message);
  }

  #answer(streamId: number, code: number, message: string): void {
    const response = encodeResponse({ code, message, payload: Buffer.alloc(0) });
    this.#down.send(encodeFrame(streamId, frameType.response, response));
  }
}
