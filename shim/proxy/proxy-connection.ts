/**
 * A downstream connection, from containerd, and its upstream connection, to the stock shim. Every
 * frame is forwarded with its stream number of the other side. Intercepted calls are the exception.
 */

import type { Socket } from 'node:net';
import type { Client } from '../../src/ttrpc/client.js';
import { Connection } from '../../src/ttrpc/connection.js';
import {
  decodeRequest,
  encodeResponse,
  type Response,
  statusCode,
} from '../../src/ttrpc/envelope.js';
import {
  encodeFrame,
  type Frame,
  frameType,
  maxPayloadBytes,
  payloadOf,
  setStreamId,
} from '../../src/ttrpc/frame.js';
import type { Intercept } from '../intercept/interception.js';
import { ended, ForwardedCall } from './forwarded-call.js';

export class ProxyConnection {
  readonly #downstream: Connection;
  readonly #upstream: Client;
  readonly #intercept: Intercept;
  /** Downstream stream number to upstream stream number, until the call ends. */
  readonly #streams = new Map<number, number>();
  #lastId = 0;
  #callerGone = false;
  /** One function for each call that must finish without its caller. It is called when the caller is gone. */
  readonly #unfinished = new Set<() => void>();

  /** `upstream` belongs to this object and ends with it. */
  constructor(downstream: Socket, upstream: Client, intercept: Intercept) {
    this.#upstream = upstream;
    this.#intercept = intercept;
    this.#downstream = new Connection(downstream, {
      frame: (frame) => this.#fromCaller(frame),
      oversized: (streamId, type, bytes) => this.#oversized(streamId, type, bytes),
      closed: () => {
        this.#callerGone = true;
        for (const onCallerGone of this.#unfinished) onCallerGone();
        this.#endUnused();
      },
    });
  }

  /** Called when the upstream connection has ended. */
  end(): void {
    this.#downstream.end();
  }

  #endUnused(): void {
    if (this.#callerGone && this.#unfinished.size === 0) this.#upstream.close();
  }

  async #keptUntil(work: Promise<Response>, onCallerGone: () => void): Promise<Response> {
    this.#unfinished.add(onCallerGone);
    try {
      return await work;
    } finally {
      this.#unfinished.delete(onCallerGone);
      this.#endUnused();
    }
  }

  #fromCaller(frame: Frame): void {
    if (frame.type === frameType.request) this.#request(frame);
    else if (frame.type === frameType.data) this.#data(frame);
    else this.#downstream.destroy();
  }

  #request(frame: Frame): void {
    const { streamId } = frame;
    if (!this.#isNew(streamId) || this.#intercepted(frame)) return;
    const upstreamId = this.#upstream.open(
      frame.bytes,
      (answer) => this.#toCaller(streamId, answer),
      this.#downstream,
    );
    this.#streams.set(streamId, upstreamId);
  }

  /** The rules of the stock shim: a stream that is new there must be new here. */
  #isNew(streamId: number): boolean {
    if (streamId % 2 === 0) {
      this.#refuse(streamId, `stream ${streamId}: a caller's streams have odd numbers`);
      return false;
    }
    if (streamId <= this.#lastId) {
      const last = this.#lastId;
      this.#refuse(streamId, `stream ${streamId}: not above ${last}, the last one used`);
      return false;
    }
    this.#lastId = streamId;
    return true;
  }

  #intercepted(frame: Frame): boolean {
    let forwarded: ForwardedCall;
    let answer: Promise<Response> | undefined;
    try {
      const call = decodeRequest(payloadOf(frame));
      forwarded = new ForwardedCall(this.#upstream, call, frame, (work, onCallerGone) =>
        this.#keptUntil(work, onCallerGone),
      );
      answer = this.#intercept(call, forwarded);
    } catch {
      return false; // the stock shim reports the fault
    }
    if (answer === undefined) return false;
    answer.then(
      (response) => {
        if (response === ended && this.#upstream.closed) return; // as in #toCaller
        this.#downstream.send(forwarded.answerFrame(frame.streamId, response));
      },
      (error: unknown) => this.#answer(frame.streamId, statusCode.internal, String(error)),
    );
    return true;
  }

  #data(frame: Frame): void {
    const upstreamId = this.#streams.get(frame.streamId);
    if (upstreamId === undefined) {
      this.#refuse(frame.streamId, `stream ${frame.streamId}: its call has ended`);
      return;
    }
    setStreamId(frame.bytes, upstreamId);
    this.#upstream.send(frame.bytes, this.#downstream);
  }

  #toCaller(streamId: number, answer: Frame | undefined): void {
    if (answer === undefined) {
      this.#streams.delete(streamId);
      // No answer after the end of the stock shim: to containerd, the connection's end means that
      // Shutdown has succeeded.
      if (!this.#upstream.closed) this.#answer(streamId, ended.code, ended.message);
      return;
    }
    if (answer.type === frameType.response) this.#streams.delete(streamId);
    setStreamId(answer.bytes, streamId);
    this.#downstream.send(answer.bytes, this.#upstream.connection);
  }

  #oversized(streamId: number, type: number, payloadBytes: number): void {
    if (type !== frameType.request && type !== frameType.data) {
      this.#downstream.destroy();
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
    this.#downstream.send(encodeFrame(streamId, frameType.response, response));
  }
}
