/** The migrations that run on this host, for other programs: callers of control.ts. */

import { createConnection, type Socket } from 'node:net';
import { createInterface } from 'node:readline';
import * as v from 'valibot';
import { asKfdError, KfdError } from '../errors.js';
import type { ControlRequest } from './control.js';
import { type MigrationStatus, statusSchema } from './status.js';
import { fitting } from './wire/messages.js';

const answerMs = 10_000;
const cancelSchema = v.union([
  v.object({ cancelled: v.literal(true) }),
  v.object({ too_late: v.string() }),
]);

/** Of whoever plays a side. Throws E_NOT_FOUND where nobody does, E_TIMEOUT, E_PROTOCOL. */
export async function statusAt(path: string, signal: AbortSignal): Promise<MigrationStatus> {
  return fitting(await answer(path, { type: 'status' }, signal), statusSchema, path);
}

/** The same, until it has ended or `signal`. The last one has the result, unless it was killed. */
export async function* watchAt(path: string, signal: AbortSignal): AsyncGenerator<MigrationStatus> {
  for await (const value of answers(path, { type: 'watch' }, signal))
    yield fitting(value, statusSchema, path);
}

/** Throws E_TOO_LATE with the reason, and as `statusAt`. */
export async function cancelAt(path: string, reason: string, signal: AbortSignal): Promise<void> {
  const value = await answer(path, { type: 'cancel', reason: reason.slice(0, 1024) }, signal);
  const said = fitting(value, cancelSchema, path);
  if ('cancelled' in said) return;
  throw new KfdError('E_TOO_LATE', `migration: cannot be cancelled: ${said.too_late}`);
}

async function answer(
  path: string,
  request: ControlRequest,
  signal: AbortSignal,
): Promise<unknown> {
  const limit = AbortSignal.timeout(answerMs);
  for await (const value of answers(path, request, AbortSignal.any([signal, limit]))) return value;
  if (signal.aborted) throw new KfdError('E_CANCELLED', `${path}: interrupted`);
  if (!limit.aborted) throw nobody(path);
  throw new KfdError('E_TIMEOUT', `${path}: no answer in ${answerMs / 1000} s`, {
    hint: 'the process may be stopped, or the host very busy: try again',
  });
}

async function* answers(
  path: string,
  request: ControlRequest,
  signal: AbortSignal,
): AsyncGenerator<unknown> {
  const socket = await connected(path);
  const lines = createInterface({ input: socket });
  // By itself readline knows only "end", which a destroyed socket does not emit.
  socket.once('close', () => lines.close());
  const stop = () => void socket.destroy();
  signal.addEventListener('abort', stop, { once: true });
  if (signal.aborted) stop();
  socket.write(`${JSON.stringify(request)}\n`);
  try {
    for await (const line of lines) yield parsed(line, path);
  } finally {
    signal.removeEventListener('abort', stop);
    socket.destroy();
  }
}

function connected(path: string): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = createConnection(path);
    socket.once('connect', () => {
      socket.removeAllListeners('error');
      // A process that is killed shows as the end of what it says.
      socket.on('error', () => undefined);
      resolve(socket);
    });
    socket.once('error', ({ code }: NodeJS.ErrnoException) => {
      const isGone = code === 'ENOENT' || code === 'ECONNREFUSED' || code === 'ECONNRESET';
      reject(isGone ? nobody(path) : asKfdError(new Error(code), path));
    });
  });
}

const nobody = (path: string) => new KfdError('E_NOT_FOUND', `${path}: no process is there`);

function parsed(line: string, path: string): unknown {
  try {
    return JSON.parse(line);
  } catch (cause) {
    throw new KfdError('E_PROTOCOL', `${path}: an answer is no JSON`, { cause });
  }
}
