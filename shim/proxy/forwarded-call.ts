/** The stock shim for one intercepted call. */

import type { Client } from '../../src/ttrpc/client.js';
import {
  type Call,
  decodeResponse,
  encodeResponse,
  type Response,
  statusCode,
  withoutDeadline,
  withPayload,
} from '../../src/ttrpc/envelope.js';
import {
  encodeFrame,
  type Frame,
  frameType,
  payloadOf,
  setStreamId,
} from '../../src/ttrpc/frame.js';
import type { Upstream } from '../intercept/interception.js';

/** Time limit of the stock shim for a call of our own, milliseconds. */
const askTimeoutMs = 10_000;
/** The longest time of setTimeout, milliseconds. */
const longestTimerMs = 2 ** 31 - 1;

/** The answer to a call whose stream has ended without one. */
export const ended: Response = {
  code: statusCode.unavailable,
  message: 'the shim ended the call',
  payload: Buffer.alloc(0),
};

/** The answer to a call that was not made, because nobody waits for it any more. */
const left: Response = {
  code: statusCode.cancelled,
  message: 'E_CANCELLED: the caller has left before the call could be made',
  payload: Buffer.alloc(0),
};

/** Keeps the stock shim's connection until `work` ends, and calls `onCallerGone` when the caller's ends. */
export type KeptUntil = (work: Promise<Response>, onCallerGone: () => void) => Promise<Response>;

/** An answer that nobody has changed reaches the caller byte for byte. */
export class ForwardedCall implements Upstream {
  readonly #upstream: Client;
  readonly #call: Call;
  readonly #request: Frame;
  readonly #keptUntil: KeptUntil;
  #response: Response | undefined;
  #frame: Frame | undefined;

  /** `request` is the frame of `call`. */
  constructor(upstream: Client, call: Call, request: Frame, keptUntil: KeptUntil) {
    this.#upstream = upstream;
    this.#call = call;
    this.#request = request;
    this.#keptUntil = keptUntil;
  }

  forward(payload?: Buffer): Promise<Response> {
    return this.#send(
      payload === undefined
        ? this.#request.bytes
        : encodeFrame(0, frameType.request, withPayload(payloadOf(this.#request), payload)),
    );
  }

  forwardToEnd(
    onCallerGone: () => void,
    finish: (response: Response) => Promise<Response>,
    { onUnheard = () => undefined, after }: Parameters<Upstream['forwardToEnd']>[2] = {},
  ): Promise<Response> {
    let isOver = false;
    let isGone = false;
    const gone = () => {
      if (isGone) return;
      isGone = true;
      (isOver ? onUnheard : onCallerGone)();
    };
    const { timeoutNs } = this.#call;
    const ms = Number(timeoutNs / 1_000_000n);
    const timer = timeoutNs === 0n || ms > longestTimerMs ? undefined : setTimeout(gone, ms);
    const request = encodeFrame(0, frameType.request, withoutDeadline(payloadOf(this.#request)));
    const sent =
      after === undefined
        ? this.#send(request)
        : after.then(() => (isGone ? left : this.#send(request)));
    const answered = sent.finally(() => {
      clearTimeout(timer);
      isOver = true;
    });
    return this.#keptUntil(answered.then(finish), gone);
  }

  ask(method: string, payload: Buffer): Promise<Response> {
    const { service } = this.#call;
    return this.#upstream.call({ service, method, payload }, askTimeoutMs);
  }

  #send(request: Buffer): Promise<Response> {
    return new Promise((resolve, reject) => {
      this.#upstream.open(request, (frame) => {
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

  /** The frame that carries `response` to the caller. */
  answerFrame(streamId: number, response: Response): Buffer {
    if (response !== this.#response || this.#frame === undefined) {
      return encodeFrame(streamId, frameType.response, encodeResponse(response));
    }
    setStreamId(this.#frame.bytes, streamId);
    return this.#frame.bytes;
  }
}
