/** The restore on the target of a migration: it has started before its words are known, and before it may begin. */

import { Socket } from 'node:net';
import { createInterface } from 'node:readline';
import * as v from 'valibot';
import { KfdError } from '../errors.js';
import { goWord, prepared } from '../migrate/standby.js';
import type { CommandContext } from './context.js';
import { restoreCommand } from './restore.js';

const words = v.array(v.string());

/** What the target's process says, line by line. */
class Prompt {
  readonly #socket: Socket;
  readonly #lines: AsyncIterator<string>;

  /** `descriptor`: a socket. */
  constructor(descriptor: number) {
    this.#socket = new Socket({ fd: descriptor, readable: true, writable: true });
    // Its end is what counts.
    this.#socket.on('error', () => undefined);
    this.#lines = createInterface({ input: this.#socket })[Symbol.asyncIterator]();
  }

  /** Throws E_CANCELLED when nobody is there any more. */
  async next(): Promise<string> {
    const { value, done } = await this.#lines.next();
    if (done !== true) return value;
    throw new KfdError('E_CANCELLED', 'migration: was given up before the restore');
  }

  say(text: string): void {
    this.#socket.write(text);
  }

  close(): void {
    this.#socket.destroy();
  }
}

/** Restores by the words of `restore` that come first, and begins with podman when it is told. Throws as `restore`. */
export async function restoreWhenTold(context: CommandContext, descriptor: number): Promise<void> {
  const prompt = new Prompt(descriptor);
  const leave = () => prompt.close();
  context.signal.addEventListener('abort', leave, { once: true });
  try {
    const asked = v.parse(words, JSON.parse(await prompt.next()));
    const runThrough: CommandContext['runThrough'] = async (...call) => {
      prompt.say(prepared);
      if (`${await prompt.next()}\n` !== goWord)
        throw new KfdError('E_PROTOCOL', 'migration: no word for a restore');
      return context.runThrough(...call);
    };
    await restoreCommand({ ...context, runThrough }).parseAsync(asked, { from: 'user' });
  } finally {
    context.signal.removeEventListener('abort', leave);
    prompt.close();
  }
}
