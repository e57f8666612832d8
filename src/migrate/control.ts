/**
 * The socket of a side that is being played: its status, and a way to stop it. One request in JSON by line, then the
 * answer. `watch` is answered until the end. Only root comes into the folder.
 */

import { promises } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { dirname } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import * as v from 'valibot';
import { asKfdError } from '../errors.js';
import type { MigrationResult, MigrationStatus } from './status.js';

/** Between two statuses for whoever watches. */
const stepMs = 250;
/** How long the last status may take to be read. */
const lastMs = 1000;
const maxRequest = 8192;

export const requestSchema = v.variant('type', [
  v.object({ type: v.literal('status') }),
  v.object({ type: v.literal('watch') }),
  v.object({ type: v.literal('cancel'), reason: v.pipe(v.string(), v.maxLength(1024)) }),
]);

export type ControlRequest = v.InferOutput<typeof requestSchema>;

/** What the socket needs of whoever plays. */
export interface Played {
  readonly status: () => Omit<MigrationStatus, 'result'>;
  /** Returns the reason why it comes too late, if it does. */
  readonly cancel: (reason: string) => string | undefined;
}

export class Control {
  readonly #path: string;
  readonly #played: Played;
  readonly #server: Server;
  readonly #open = new Set<Socket>();
  readonly #watchers = new Map<Socket, NodeJS.Timeout>();

  /** Whoever opens it has the lock of this side, so a socket that is there is a dead one. Throws E_IO. */
  static async open(path: string, played: Played): Promise<Control> {
    await promises.mkdir(dirname(path), { recursive: true, mode: 0o700 });
    await promises.rm(path, { force: true });
    const control = new Control(path, played);
    await new Promise<void>((resolve, reject) => {
      control.#server.once('error', (error) => reject(asKfdError(error, path)));
      control.#server.listen(path, resolve);
    });
    // A failure later on concerns a caller alone.
    control.#server.on('error', () => undefined);
    control.#server.unref();
    return control;
  }

  private constructor(path: string, played: Played) {
    this.#path = path;
    this.#played = played;
    this.#server = createServer((socket) => this.#serve(socket));
  }

  /** Tells the end to whoever watches. Without `result` this process ends before the migration. Never throws. */
  async close(result?: MigrationResult): Promise<void> {
    const gone = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    for (const [socket, timer] of this.#watchers) {
      clearInterval(timer);
      if (result !== undefined) this.#tell(socket, result);
      socket.end();
    }
    for (const socket of this.#open) if (!this.#watchers.has(socket)) socket.end();
    // Nothing else may keep this process: it must not end before its caller has the answer.
    const isGone = new AbortController();
    const limit = delay(lastMs, undefined, { signal: isGone.signal }).catch(() => undefined);
    await Promise.race([gone, limit]);
    isGone.abort();
    for (const socket of this.#open) socket.destroy();
    await promises.rm(this.#path, { force: true }).catch(() => undefined);
  }

  #serve(socket: Socket): void {
    let text = '';
    this.#open.add(socket);
    socket.unref();
    socket.setEncoding('utf8');
    socket.on('error', () => undefined);
    socket.on('close', () => {
      clearInterval(this.#watchers.get(socket));
      this.#watchers.delete(socket);
      this.#open.delete(socket);
    });
    socket.on('data', (more: string) => {
      text += more;
      const end = text.indexOf('\n');
      if (end === -1 && text.length <= maxRequest) return;
      socket.removeAllListeners('data');
      socket.resume();
      this.#answer(socket, text.slice(0, Math.max(0, end)));
    });
  }

  #answer(socket: Socket, line: string): void {
    let request: ControlRequest;
    try {
      request = v.parse(requestSchema, JSON.parse(line));
    } catch {
      socket.destroy();
      return;
    }
    if (request.type === 'cancel') {
      const why = this.#played.cancel(request.reason);
      socket.end(
        `${JSON.stringify(why === undefined ? { cancelled: true } : { too_late: why })}\n`,
      );
      return;
    }
    this.#tell(socket, null);
    if (request.type === 'status') socket.end();
    else this.#watchers.set(socket, setInterval(() => this.#tell(socket, null), stepMs).unref());
  }

  #tell(socket: Socket, result: MigrationStatus['result']): void {
    socket.write(`${JSON.stringify({ ...this.#played.status(), result })}\n`);
  }
}
