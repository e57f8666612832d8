/** Answers messages: one handler per type, errors become answers of type `error`. */

import { asKfdError, type ErrorCode, KfdError, printable } from '../../errors.js';
import type { Logger } from '../../log.js';
import { type Delivery, fromNative, type Listener } from '../../native.js';
import type { Message } from './message.js';
import { messageType } from './wire.js';

/** What serving messages needs of a session. */
export interface MessageContext {
  readonly log: Logger;
  readonly logPath: string;
  /** Opens the session's socket; every delivery goes to `onDelivery`. Throws KFD_IO. */
  listen(onDelivery: (delivery: Delivery) => void): Listener;
}

/** What a handler answers; `undefined`: the message wants no answer. */
export interface Answer {
  readonly args?: readonly number[];
  readonly text?: string;
  readonly fds?: readonly { readonly fd: number; close(): void }[];
}

export type Handler = (message: Message) => Promise<Answer | undefined> | Answer | undefined;

/**
 * The text of an error for users of the container engine: reason, next step, place of the log. Names of processes in it
 * are what the container wants.
 */
export function explain(error: KfdError, logPath: string): string {
  const hint = error.hint === undefined ? '' : ` (${error.hint})`;
  return printable(`${error.code}: ${error.message}${hint}; session log: ${logPath}`);
}

/** Milliseconds. Peers give up a session that is silent for six times as long (kSilenceMs of wire.h). */
const workingMs = 20_000;

/**
 * Opens the session's socket and answers by `handlers`. A peer whose answer takes long hears every `everyMs` that the
 * session works on it.
 */
export function serveMessages(
  context: MessageContext,
  handlers: ReadonlyMap<number, Handler>,
  onError: (error: KfdError) => void,
  everyMs: number = workingMs,
): Listener {
  const listener = context.listen((delivery: Delivery) => {
    if (delivery.deaf !== undefined) {
      onError(deaf(delivery.deaf, context.log));
      return;
    }
    if (delivery.closed === true) {
      if (delivery.reason !== undefined) {
        context.log.warn({ pid: delivery.pid, reason: delivery.reason }, 'peer dropped');
      }
      return;
    }
    void answer(delivery);
  });

  function sayWorking({ peer }: Message): void {
    try {
      listener.reply(peer, messageType.working, [], '', []);
    } catch {
      // The peer has gone.
    }
  }

  async function answer(message: Message): Promise<void> {
    const working = setInterval(sayWorking, everyMs, message).unref();
    try {
      await handle(message);
    } finally {
      clearInterval(working);
    }
  }

  async function handle(message: Message): Promise<void> {
    try {
      const handler = handlers.get(message.type);
      if (handler === undefined) {
        throw new KfdError('E_PROTOCOL', `message ${message.type}: not expected in this session`);
      }
      const result = await handler(message);
      if (result === undefined) return;
      listener.reply(
        message.peer,
        messageType.ok,
        result.args ?? [],
        result.text ?? '',
        result.fds ?? [],
      );
    } catch (error) {
      const known = asSessionError(error);
      context.log.error({ err: known, message_type: message.type }, 'refused');
      onError(known);
      try {
        const text = explain(known, context.logPath);
        listener.reply(message.peer, messageType.error, [], text, []);
      } catch {
        // The peer did not wait for the answer. The log has the error.
      }
    }
  }
  return listener;
}

/** Nobody who connects would be heard: this checkpoint or restore cannot succeed. */
function deaf(reason: string, log: Logger): KfdError {
  const error = new KfdError('E_IO', `session socket: no connection can be accepted: ${reason}`, {
    hint: "raise the limit of descriptors of CRIU's caller, or free memory",
  });
  log.error({ err: error }, 'nobody is accepted');
  return error;
}

/** The failure that a plugin reports: with `code`, or E_INTERNAL for a fault of its program. */
export function reportedFailure(
  { args: [, internal], body }: Pick<Message, 'args' | 'body'>,
  code: ErrorCode,
): KfdError {
  return new KfdError(internal === 1 ? 'E_INTERNAL' : code, body.toString('utf8'));
}

/** Any caught error as a KfdError. */
export function asSessionError(error: unknown): KfdError {
  if (error instanceof KfdError) return error;
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  return code.startsWith('KFD_') ? fromNative(error, 'session') : asKfdError(error, 'session');
}
