/** Ends of ttrpc connections for tests: a server that answers as it is told, and a caller that can say anything. */

import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import {
  type Call,
  decodeRequest,
  decodeResponse,
  encodeResponse,
} from '../../src/ttrpc/envelope.js';
import {
  encodeFrame,
  type Frame,
  FrameReader,
  frameType,
  payloadOf,
} from '../../src/ttrpc/frame.js';
import { temporaryFolder } from './paths.js';

/** Answers one call; undefined: not at all; a function: with its bytes, whatever they are. */
export type Answering = (request: Call) => Promise<Answer> | Answer;

type Answer = Partial<Reply> | ((streamId: number) => Buffer) | undefined;

interface Reply {
  readonly code: number;
  readonly message: string;
  readonly payload: Buffer;
}

/** As stock servers are: one that calls in any order, streams told apart by their numbers alone. */
export class TestServer {
  readonly path: string;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  /** Of streams: what came in data frames, by connection and stream. */
  readonly data: string[] = [];
  /** How many calls have come. */
  calls = 0;

  constructor(path: string, answering: Answering) {
    this.path = path;
    this.#server = createServer((socket) => {
      this.#sockets.add(socket);
      socket.on('error', () => undefined);
      socket.on('close', () => this.#sockets.delete(socket));
      let last = 0;
      const reader = new FrameReader({
        frame: (frame) => {
          if (frame.type === frameType.data) return this.#data(socket, frame);
          if (frame.streamId % 2 === 0 || frame.streamId <= last) socket.destroy();
          last = frame.streamId;
          this.calls += 1;
          void this.#answer(socket, frame, answering);
        },
        oversized: () => void socket.destroy(),
      });
      socket.on('data', (chunk: Buffer) => reader.push(chunk));
    });
  }

  async listen(): Promise<this> {
    this.#server.listen(this.path);
    await once(this.#server, 'listening');
    return this;
  }

  get connections(): number {
    return this.#sockets.size;
  }

  /** As when the process ends. */
  close(): void {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
  }

  #data(socket: Socket, frame: Frame): void {
    this.data.push(payloadOf(frame).toString());
    // An echo, and the end when it was the last.
    socket.write(encodeFrame(frame.streamId, frameType.data, payloadOf(frame)));
    if (frame.flags !== 1) return;
    socket.write(encodeFrame(frame.streamId, frameType.response, Buffer.alloc(0)));
  }

  async #answer(socket: Socket, frame: Frame, answering: Answering): Promise<void> {
    let request: Call;
    try {
      request = decodeRequest(payloadOf(frame));
    } catch {
      request = { service: '', method: 'damaged', payload: Buffer.alloc(0), timeoutNs: 0n };
    }
    const reply = await answering(request);
    if (reply === undefined) return;
    if (typeof reply === 'function') {
      socket.write(reply(frame.streamId));
      return;
    }
    const whole = { code: 0, message: '', payload: Buffer.alloc(0), ...reply };
    socket.write(encodeFrame(frame.streamId, frameType.response, encodeResponse(whole)));
  }
}

/** A server with a socket of its own that goes away with the test. */
export async function testServer(t: TestContext, answering: Answering): Promise<TestServer> {
  const folder = await temporaryFolder(t);
  const server = await new TestServer(join(folder, 'child'), answering).listen();
  t.after(async () => {
    server.close();
    await rm(folder, { recursive: true, force: true });
  });
  return server;
}

/** A connection that says what it is told and keeps what it hears, a line for each frame. */
export class Caller {
  readonly socket: Socket;
  readonly heard: string[] = [];
  readonly ended: Promise<unknown>;
  #wake = () => {};

  constructor(path: string) {
    this.socket = connect(path);
    this.socket.on('error', () => undefined);
    // Not once(), which rejects on an error: a connection that was reset has ended, too.
    this.ended = new Promise((resolve) => this.socket.on('close', resolve));
    const reader = new FrameReader({
      frame: (frame) => {
        this.heard.push(describe(frame));
        this.#wake();
      },
      oversized: () => void this.socket.destroy(),
    });
    this.socket.on('data', (chunk: Buffer) => reader.push(chunk));
    this.socket.on('close', () => this.#wake());
  }

  /** Waits until so many frames have come; what they were, in words. */
  async hear(count: number): Promise<readonly string[]> {
    while (this.heard.length < count) {
      if (this.socket.destroyed) throw new Error(`ended after ${JSON.stringify(this.heard)}`);
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    return this.heard;
  }
}

function describe(frame: Frame): string {
  const payload = payloadOf(frame);
  if (frame.type === frameType.data) return `${frame.streamId} data ${payload.toString()}`;
  const { code, message, payload: inside } = decodeResponse(payload);
  return `${frame.streamId} response ${code} ${message} ${inside.toString()}`;
}
