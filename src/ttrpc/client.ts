/** The client side of a connection. Gives every call a stream and finds the call of every answer. */

import { connect, type Socket } from 'node:net';
import { KfdError } from '../errors.js';
import { Connection } from './connection.js';
import { decodeResponse, encodeRequest, type Request, type Response } from './envelope.js';
import { encodeFrame, type Frame, frameType, payloadOf, setStreamId } from './frame.js';

/**
 * Receives every frame of one stream. `undefined`: no more frames will come, because one was too long or
 * the connection has ended.
 */
export type StreamHandler = (frame: Frame | undefined) => void;

export class Client {
  readonly connection: Connection;
  readonly #streams = new Map<number, StreamHandler>();
  readonly #onClose: () => void;
  #nextId = 1;
  #closed = false;

  /** `onClose` is called once, after the handlers of all streams. */
  constructor(socket: Socket, onClose: () => void) {
    this.#onClose = onClose;
    this.connection = new Connection(socket, {
      frame: (frame) => this.#frame(frame),
      oversized: (streamId) => this.#drop(streamId),
      closed: () => this.#end(),
    });
  }

  /**
   * Sends a request frame on a new stream and writes the stream's number into the frame. The number is
   * chosen when the frame is sent, because a server refuses a number below an earlier one. `from`: see
   * Connection.send.
   */
  open(request: Buffer, handler: StreamHandler, from?: Connection): number {
    const id = this.#nextId;
    if (this.#closed || id > 0xffffffff) {
      handler(undefined);
      return id;
    }
    this.#nextId += 2;
    this.#streams.set(id, handler);
    setStreamId(request, id);
    this.connection.send(request, from);
    return id;
  }

  /** Sends a later frame of a stream. */
  send(bytes: Buffer, from?: Connection): void {
    this.connection.send(bytes, from);
  }

  /**
   * Makes one call without streaming. The server's status is part of the answer. Rejects with
   * E_PROTOCOL when there is no answer, and with E_TIMEOUT after `timeoutMs`.
   */
  call(request: Request, timeoutMs: number): Promise<Response> {
    return new Promise((resolve, reject) => {
      const { service, method } = request;
      const name = `${service}/${method}`;
      const timer = setTimeout(() => {
        // A late answer is ignored.
        this.#streams.set(id, () => undefined);
        reject(new KfdError('E_TIMEOUT', `${name}: no answer within ${timeoutMs} ms`));
      }, timeoutMs);
      const bytes = encodeRequest(request, BigInt(timeoutMs) * 1_000_000n);
      const id = this.open(encodeFrame(0, frameType.request, bytes), (frame) => {
        clearTimeout(timer);
        if (frame === undefined) {
          reject(new KfdError('E_PROTOCOL', `${name}: the connection ended without an answer`));
          return;
        }
        try {
          resolve(decodeResponse(payloadOf(frame)));
        } catch (error) {
          reject(error as Error);
        }
      });
    });
  }

  /** Whether the connection has ended. */
  get closed(): boolean {
    return this.#closed;
  }

  close(): void {
    this.connection.destroy();
  }

  #frame(frame: Frame): void {
    const handler = this.#streams.get(frame.streamId);
    if (
      handler === undefined ||
      (frame.type !== frameType.response && frame.type !== frameType.data)
    ) {
      throw new KfdError('E_PROTOCOL', `ttrpc: a frame of type ${frame.type} on an unknown stream`);
    }
    if (frame.type === frameType.response) this.#streams.delete(frame.streamId);
    handler(frame);
  }

  #drop(streamId: number): void {
    const handler = this.#streams.get(streamId);
    this.#streams.delete(streamId);
    handler?.(undefined);
  }

  #end(): void {
    this.#closed = true;
    const handlers = [...this.#streams.values()];
    this.#streams.clear();
    for (const handler of handlers) handler(undefined);
    this.#onClose();
  }
}

/** Connects to the server at the socket `path`. Rejects with Node's error when nobody listens there. */
export function connectTo(path: string, onClose: () => void): Promise<Client> {
  return new Promise((resolve, reject) => {
    const socket = connect(path);
    socket.once('error', reject);
    socket.once('connect', () => {
      socket.off('error', reject);
      resolve(new Client(socket, onClose));
    });
  });
}
