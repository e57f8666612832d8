/** A socket that carries frames. Client and server of ttrpc use it. */

import type { Socket } from 'node:net';
import { FrameReader, type FrameSink } from './frame.js';

export interface ConnectionEvents extends FrameSink {
  /** Called once when the connection has ended, for any reason. */
  closed(): void;
}

export class Connection {
  readonly #socket: Socket;
  /** Sockets that are paused until the bytes that are buffered here are sent. */
  readonly #waiting = new Set<Socket>();

  constructor(socket: Socket, events: ConnectionEvents) {
    this.#socket = socket;
    const reader = new FrameReader(events);
    socket.on('data', (chunk: Buffer) => {
      try {
        reader.push(chunk);
      } catch {
        // Bad input of a peer only ends its connection.
        socket.destroy();
      }
    });
    // 'close' follows and does the work.
    socket.on('error', () => undefined);
    socket.on('drain', () => this.#resume());
    socket.on('close', () => {
      this.#resume();
      events.closed();
    });
  }

  /** Sends a whole frame. Pauses `from`, where the bytes come from, while they cannot be sent. */
  send(bytes: Buffer, from?: Connection): void {
    if (this.#socket.write(bytes) || from === undefined || this.#socket.destroyed) return;
    from.#socket.pause();
    this.#waiting.add(from.#socket);
  }

  /** Ends the connection when all frames are sent. */
  end(): void {
    this.#socket.destroySoon();
  }

  /** Ends the connection at once. */
  destroy(): void {
    this.#socket.destroy();
  }

  #resume(): void {
    for (const socket of this.#waiting) socket.resume();
    this.#waiting.clear();
  }
}
