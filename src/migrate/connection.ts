/** A connection to the other side: messages over two streams, and the ssh that carries them. */

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Readable, Writable } from 'node:stream';
import { asKfdError, KfdError, printable } from '../errors.js';
import { missing } from '../os/exec.js';
import { FrameReader, greeting } from './wire/frame.js';
import { decodeMessage, encodeMessage, errorOf, type Message } from './wire/messages.js';

/** Messages one after the other. Contents have no place here yet. */
export class Messages {
  readonly #output: Writable;
  readonly #found: AsyncGenerator<Message>;

  constructor(input: Readable, output: Writable) {
    this.#output = output;
    this.#found = messagesOf(input);
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

async function* messagesOf(input: Readable): AsyncGenerator<Message> {
  let found: Message[] = [];
  const reader = new FrameReader({
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

/** A connection that breaks is noticed after 15 s. ssh asks for passwords on the terminal, not here. */
const sshOptions = ['-T', '-o', 'ServerAliveInterval=5', '-o', 'ServerAliveCountMax=3'];
/** The last of what ssh and the other side print to standard error, characters. */
const maxSaid = 4096;

/** The system's ssh to HOST, with its own configuration. */
export class SshConnection {
  readonly messages: Messages;
  readonly #host: string;
  readonly #child: ChildProcess;
  readonly #ended: Promise<number | undefined>;
  #said = '';

  /** `host`: [USER@]HOST. Throws E_USAGE for what ssh would take for an option, E_HOST without ssh. */
  static async open(host: string): Promise<SshConnection> {
    if (!/^[^\s-][^\s]*$/.test(host)) {
      throw new KfdError('E_USAGE', `${host}: not [USER@]HOST`);
    }
    const child = spawn('ssh', [...sshOptions, '--', host, 'kfd-checkpoint', targetVerb], {
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    try {
      await once(child, 'spawn');
    } catch (error) {
      throw missing('ssh', error as Error);
    }
    return new SshConnection(host, child);
  }

  private constructor(host: string, child: ChildProcess) {
    this.#host = host;
    this.#child = child;
    this.#ended = once(child, 'close').then(([status]) => (status as number | null) ?? undefined);
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#said = (this.#said + text).slice(-maxSaid);
    });
    this.messages = new Messages(child.stdout as Readable, child.stdin as Writable);
  }

  /** The next message, which must be there. Throws the reason of the other side, E_HOST, E_PROTOCOL. */
  async expect<Type extends Message['type']>(
    type: Type,
  ): Promise<Extract<Message, { readonly type: Type }>> {
    let message: Message | undefined;
    try {
      message = await this.messages.next();
    } catch (error) {
      throw asKfdError(error, this.#host);
    }
    if (message === undefined) throw await this.#gone();
    if (message.type === type) return message as Extract<Message, { readonly type: Type }>;
    if (message.type === 'failed') throw errorOf(message.failure, this.#host);
    throw new KfdError('E_PROTOCOL', `${this.#host}: says "${message.type}", not "${type}"`);
  }

  /** Ends the connection and waits for ssh. */
  async close(): Promise<void> {
    this.messages.end();
    this.#child.stdout?.destroy();
    this.#child.kill('SIGTERM');
    await this.#ended;
  }

  /** Why there is no answer: 255 is ssh's own failure, 127 the other shell's (ssh(1), EXIT STATUS). */
  async #gone(): Promise<KfdError> {
    const status = await this.#ended;
    const said = printable(this.#said.trimEnd().split('\n').at(-1) ?? '');
    const tail = said === '' ? '' : `: ${said}`;
    if (status === 255) {
      const hint = `make "ssh ${this.#host} true" work`;
      return new KfdError('E_HOST', `ssh ${this.#host}: no connection${tail}`, { hint });
    }
    if (status === 127) {
      const hint = 'install kfd-checkpoint there, in the PATH of ssh commands';
      return new KfdError('E_HOST', `${this.#host}: has no kfd-checkpoint${tail}`, { hint });
    }
    const hint = `run "ssh ${this.#host} kfd-checkpoint check"`;
    return new KfdError('E_HOST', `${this.#host}: ended without an answer${tail}`, { hint });
  }
}
