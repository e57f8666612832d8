/**
 * One connection of containerd's and the one to the stock shim that belongs to it: every frame goes on as it came, under the
 * number its stream has there, unless somebody answers the call in the stock shim's place.
 */

import type { Socket } from 'node:net';
import type { Child, Intercept } from '../intercept/interception.js';
import type { Client } from '../transport/client.js';
import { Connection } from '../transport/connection.js';
import {
  decodeRequest,
  decodeResponse,
  encodeResponse,
  type Response,
  statusCode,
  withPayload,
} from '../transport/envelope.js';
import {
  encodeFrame,
  type Frame,
  frameType,
  maxPayloadBytes,
  payloadOf,
  setStreamId,
} from '../transport/frame.js';

/** How long the stock shim may take for a call of our own, milliseconds. */
const askTimeoutMs = 10_000;

const ended: Response = {
  code: statusCode.unavailable,
  message: 'the shim ended the call',
  payload: Buffer.alloc(0),
};

export class Link {
  readonly #down: Connection;
  readonly #up: Client;
  readonly #intercept: Intercept;
  /** Stream of the caller to stream of the child, while the call lasts. */
  readonly #streams = new Map<number, number>();
  #lastId = 0;
  #callerGone = false;
  /** Of calls that the stock shim is to finish whether or not the caller is there: who hears that it is not. */
  readonly #unfinished = new Set<() => void>();

  /** `up` is this link's alone, and ends with it. */
  constructor(down: Socket, up: Client, intercept: Intercept) {
    this.#up = up;
    this.#intercept = intercept;
    this.#down = new Connection(down, {
      frame: (frame) => this.#fromCaller(frame),
      oversized: (streamId, type, bytes) => this.#oversized(streamId, type, bytes),
      closed: () => {
        this.#callerGone = true;
        for (const onCallerGone of this.#unfinished) onCallerGone();
        this.#endUnused();
      },
    });
  }

  /** After the child's end of the link. */
  end(): void {
    this.#down.end();
  }

  #endUnused(): void {
    if (this.#callerGone && this.#unfinished.size === 0) this.#up.close();
  }

  async #keptUntil(call: Promise<Response>, onCallerGone: () => void): Promise<Response> {
    this.#unfinished.add(onCallerGone);
    try {
      return await call;
    } finally {
      this.#unfinished.delete(onCallerGone);
      this.#endUnused();
    }
  }

  #fromCaller(frame: Frame): void {
    if (frame.type === frameType.request) this.#request(frame);
    else if (frame.type === frameType.data) this.#data(frame);
    else this.#down.destroy();
  }

  #request(frame: Frame): void {
    const { streamId } = frame;
    if (!this.#isNew(streamId) || this.#intercepted(frame)) return;
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
      const last = this.#lastId;
      this.#refuse(streamId, `stream ${streamId}: not above ${last}, which was used before`);
      return false;
    }
    this.#lastId = streamId;
    return true;
  }

  #intercepted(frame: Frame): boolean {
    let forwarded: Forwarded;
    let answer: Promise<Response> | undefined;
    try {
      const call = decodeRequest(payloadOf(frame));
      forwarded = new Forwarded(this.#up, call.service, frame, (answer, onCallerGone) =>
        this.#keptUntil(answer, onCallerGone),
      );
      answer = this.#intercept(call, forwarded);
    } catch {
      return false; // the stock shim says what is wrong with it
    }
    if (answer === undefined) return false;
    answer.then(
      (response) => this.#down.send(forwarded.answerFrame(frame.streamId, response)),
      (error: unknown) => this.#answer(frame.streamId, statusCode.internal, String(error)),
    );
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
      // No answer after the end of the stock shim: containerd takes the end of the connection for a Shutdown that went well.
      if (!this.#up.closed) this.#answer(streamId, ended.code, ended.message);
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

type KeptUntil = (call: Promise<Response>, onCallerGone: () => void) => Promise<Response>;

/** The stock shim for one intercepted call. Its answer goes to the caller byte for byte when nobody has changed it. */
class Forwarded implements Child {
  readonly #up: Client;
  readonly #service: string;
  readonly #request: Frame;
  readonly #keptUntil: KeptUntil;
  #response: Response | undefined;
  #frame: Frame | undefined;

  constructor(up: Client, service: string, request: Frame, keptUntil: KeptUntil) {
    this.#up = up;
    this.#service = service;
    this.#request = request;
    this.#keptUntil = keptUntil;
  }

  forward(payload?: Buffer): Promise<Response> {
    const bytes =
      payload === undefined
        ? this.#request.bytes
        : encodeFrame(0, frameType.request, withPayload(payloadOf(this.#request), payload));
    return new Promise((resolve, reject) => {
      this.#up.open(bytes, (frame) => {
        try {
          this.#frame = frame;
          this.#response = frame === undefined ? ended : decodeResponse(payloadOf(frame));
          resolve(this.#response);
        } catch (error) {
          reject(error as Error);
        }
      });
    });
  }

  forwardToEnd(onCallerGone: () => void): Promise<Response> {
    return this.#keptUntil(this.forward(), onCallerGone);
  }

  ask(method: string, payload: Buffer): Promise<Response> {
    return this.#up.call({ service: this.#service, method, payload }, askTimeoutMs);
  }

  /** The frame that gives `response` to the caller. */
  answerFrame(streamId: number, response: Response): Buffer {
    if (response !== this.#response || this.#frame === undefined) {
      return encodeFrame(streamId, frameType.response, encodeResponse(response));
    }
    setStreamId(this.#frame.bytes, streamId);
    return this.#frame.bytes;
  }
}
