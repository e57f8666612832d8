/** A socket that speaks in frames. Both ends of a ttrpc connection are made of it. */

import type { Socket } from 'node:net';
import { FrameReader, type FrameSink } from './frame.js';

export interface ConnectionEvents extends FrameSink {
  /** Once, when the connection has ended, whichever side ended it and for whatever reason. */
  closed(): void;
}

export class Connection {
  readonly #socket: Socket;
  /** Those that are not read from until what is buffered here has gone. */
  readonly #waiting = new Set<Socket>();

  constructor(socket: Socket, events: ConnectionEvents) {
    this.#socket = socket;
    const reader = new FrameReader(events);
    socket.on('data', (chunk: Buffer) => {
      try {
        reader.push(chunk);
      } catch {
        // What a peer sends ends its connection at worst.
        socket.destroy();
      }
    });
    // 'close' follows, and a peer that went away is no more than that.
    socket.on('error', () => undefined);
    socket.on('drain', () => this.#goOn());
    socket.on('close', () => {
      this.#goOn();
      events.closed();
    });
  }

  /** Sends a whole frame. `from`, whose bytes these are, is not read from until they are on their way. */
  send(bytes: Buffer, from?: Connection): void {
    if (this.#socket.write(bytes) || from === undefined || this.#socket.destroyed) return;
    from.#socket.pause();
    this.#waiting.add(from.#socket);
  }

  /** Ends the connection after what was sent. */
  end(): void {
    this.#socket.destroySoon();
  }

  /** Ends the connection at once. */
  destroy(): void {
    this.#socket.destroy();
  }

  #goOn(): void {
    for (const socket of this.#waiting) socket.resume();
    this.#waiting.clear();
  }
}
