/** The source's way to the target: one connection after the other. */

import { setTimeout as delay } from 'node:timers/promises';
import { asKfdError, type KfdError } from '../errors.js';
import { SshConnection } from './connection.js';
import type { Message } from './wire/messages.js';

/** Between two attempts to connect. */
const waitMs = { first: 1000, most: 15_000 } as const;

/** How long the other side may take for the last word. */
const lastWordMs = 5000;

export interface LinkEvents {
  readonly heard: (message: Message) => void;
  /** The connection that was there has gone. */
  readonly lost: (error: KfdError) => void;
  /** There is no new one yet. */
  readonly tried: (error: KfdError) => void;
}

export class Link {
  readonly #host: string;
  readonly #events: LinkEvents;
  #connection: SshConnection | undefined;

  constructor(host: string, events: LinkEvents) {
    this.#host = host;
    this.#events = events;
  }

  /** Takes a connection that is there already. Whatever it says next is heard. */
  use(connection: SshConnection): void {
    this.#connection = connection;
    void this.#listen(connection);
  }

  /** Resolves with a new connection. Tries until `signal`, and rejects then. */
  async connect(signal: AbortSignal): Promise<void> {
    let wait: number = waitMs.first;
    for (;;) {
      signal.throwIfAborted();
      try {
        return await this.#open(signal);
      } catch (error) {
        signal.throwIfAborted();
        this.#events.tried(asKfdError(error, this.#host));
      }
      await delay(wait, undefined, { signal });
      wait = Math.min(2 * wait, waitMs.most);
    }
  }

  say(message: Message): void {
    this.#connection?.messages.send(message);
  }

  async close(): Promise<void> {
    const connection = this.#connection;
    this.#connection = undefined;
    await connection?.close();
  }

  /** The same, when the last word has been heard there. */
  async finish(): Promise<void> {
    const connection = this.#connection;
    this.#connection = undefined;
    await connection?.finish(lastWordMs);
  }

  /** Gives up a connection whose other side is silent. `lost` follows. */
  async drop(error: KfdError): Promise<void> {
    const connection = this.#connection;
    if (connection === undefined) return;
    this.#connection = undefined;
    this.#events.lost(error);
    await connection.close();
  }

  async #open(signal: AbortSignal): Promise<void> {
    const connection = await SshConnection.open(this.#host);
    const stop = () => void connection.close();
    signal.addEventListener('abort', stop, { once: true });
    try {
      // The greeting is found by whoever waits for a message.
      const first = connection.next();
      await Promise.race([connection.greeted, first.then(() => undefined)]);
      this.#connection = connection;
      void this.#listen(connection, first);
    } catch (error) {
      await connection.close();
      throw error;
    } finally {
      signal.removeEventListener('abort', stop);
    }
  }

  async #listen(connection: SshConnection, first?: Promise<Message>): Promise<void> {
    try {
      if (first !== undefined) this.#hear(connection, await first);
      for (;;) this.#hear(connection, await connection.next());
    } catch (error) {
      if (this.#connection !== connection) return;
      this.#connection = undefined;
      this.#events.lost(asKfdError(error, this.#host));
      await connection.close();
    }
  }

  #hear(connection: SshConnection, message: Message): void {
    if (this.#connection === connection) this.#events.heard(message);
  }
}
