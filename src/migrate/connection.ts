/** A connection to the other side: messages over two streams, and the ssh that carries them. */

import type { Readable, Writable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { asKfdError, KfdError } from '../errors.js';
import { Patience } from './clock.js';
import { answerMs, type Moment } from './protocol/lease.js';
import { Ssh } from './ssh.js';
import { FrameReader, greeting } from './wire/frame.js';
import { decodeMessage, encodeMessage, errorOf, type Message } from './wire/messages.js';

/** Between two looks at the clock. */
const lookMs = 250;

/** Messages one after the other. Contents have a connection of their own. */
export class Messages {
  readonly #output: Writable;
  readonly #found: AsyncGenerator<Message>;

  /** `onGreeted`: the other side is one of ours. It is known while somebody waits for a message. */
  constructor(input: Readable, output: Writable, onGreeted: () => void = () => undefined) {
    this.#output = output;
    this.#found = messagesOf(input, onGreeted);
    // A peer that has gone shows at the next read.
    output.on('error', () => undefined);
    output.write(greeting);
  }

  send(message: Message): void {
    this.#output.write(encodeMessage(message));
  }

  /** The next message; undefined at the end of the connection. Throws E_PROTOCOL, E_IO. */
  async next(): Promise<Message | undefined> {
    const { value, done } = await this.#found.next();
    return done === true ? undefined : value;
  }

  /** Says that nothing more will be sent. */
  end(): void {
    this.#output.end();
  }
}

async function* messagesOf(input: Readable, greeted: () => void): AsyncGenerator<Message> {
  let found: Message[] = [];
  const reader = new FrameReader({
    greeted,
    control: (payload) => found.push(decodeMessage(payload)),
    content: () => {
      throw new KfdError('E_PROTOCOL', 'migration: contents that nobody asked for');
    },
    bytes: () => undefined,
  });
  let hasBegun = false;
  for await (const chunk of input) {
    hasBegun = true;
    reader.push(chunk as Buffer);
    const whole = found;
    found = [];
    yield* whole;
  }
  if (hasBegun && !reader.isBetweenFrames) {
    throw new KfdError('E_PROTOCOL', 'migration: the connection ended in the middle of a message');
  }
}

/** The hidden verb at the other end. */
export const targetVerb = 'migrate-target';

/** E_TIMEOUT: the other side lives, and has said nothing for `answerMs`. */
export function silent(host: string): KfdError {
  return new KfdError('E_TIMEOUT', `${host}: does not answer`, {
    hint: 'look for a process "migrate-target" there that hangs',
  });
}

/** The system's ssh to HOST, with the hidden verb at its other end. */
export class SshConnection {
  readonly messages: Messages;
  /** Resolves when the other side has greeted, while somebody waits for a message. */
  readonly greeted: Promise<void>;
  readonly #ssh: Ssh;

  /** Throws as `Ssh.open`. */
  static async open(host: string): Promise<SshConnection> {
    return new SshConnection(await Ssh.open(host, ['kfd-checkpoint', targetVerb]));
  }

  private constructor(ssh: Ssh) {
    this.#ssh = ssh;
    const { stdin, stdout } = ssh.child;
    // Node.js throws away what nobody reads when a process ends (child_process.js:flushStdio, v20): somebody will.
    stdout?.on('readable', () => undefined);
    let tell = (): void => undefined;
    this.greeted = new Promise((resolve) => {
      tell = resolve;
    });
    this.messages = new Messages(stdout as Readable, stdin as Writable, () => tell());
  }

  /** The next message. Throws the reason why there is none: E_HOST, E_PROTOCOL. */
  async next(): Promise<Message> {
    let message: Message | undefined;
    try {
      message = await this.messages.next();
    } catch (error) {
      throw asKfdError(error, this.#ssh.host);
    }
    if (message === undefined) throw await this.#ssh.gone();
    return message;
  }

  /** The next message, which must be there. Throws the reason of the other side, E_HOST, E_PROTOCOL. */
  async expect<Type extends Message['type']>(
    type: Type,
  ): Promise<Extract<Message, { readonly type: Type }>> {
    const message = await this.next();
    if (message.type === type) return message as Extract<Message, { readonly type: Type }>;
    const { host } = this.#ssh;
    if (message.type === 'failed') throw errorOf(message.failure, host);
    throw new KfdError('E_PROTOCOL', `${host}: says "${message.type}", not "${type}"`);
  }

  /**
   * What `work` waits for on this connection, which is closed where the other side does not answer in time. Throws
   * E_TIMEOUT then, and as `work`.
   */
  async inTime<T>(now: () => Promise<Moment>, work: () => Promise<T>): Promise<T> {
    const patience = new Patience(answerMs, now);
    let hangs = false;
    const look = setInterval(() => {
      patience.isOver().then(
        (isOver) => {
          if (!isOver || hangs) return;
          hangs = true;
          void this.close();
        },
        () => undefined,
      );
    }, lookMs);
    try {
      return await work();
    } catch (error) {
      if (!hangs) throw error;
      throw silent(this.#ssh.host);
    } finally {
      clearInterval(look);
    }
  }

  /** Ends the connection when the other side has heard all and has ended, and after `limitMs` at the latest. */
  async finish(limitMs: number): Promise<void> {
    this.messages.end();
    await Promise.race([this.#ssh.ended, delay(limitMs, undefined, { ref: false })]);
    await this.close();
  }

  /** Ends the connection and waits for ssh. */
  async close(): Promise<void> {
    this.messages.end();
    this.#ssh.child.stdout?.destroy();
    await this.#ssh.close();
  }
}
