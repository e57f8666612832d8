/** The socket for watching and cancelling a session. A failure here is logged and stops no session. */

import { once } from 'node:events';
import { chmodSync, rmSync } from 'node:fs';
import type { Server, Socket } from 'node:net';
import { join } from 'node:path';
import type { Logger } from '../../log.js';
import { loadGrpcPart } from './load.js';
import { type Controlled, controlSocketName } from './types.js';

/** The most clients at once. A client that broke HTTP/2 counts until its end is noticed. */
const maxClients = 256;

/** Time that clients have for reading the last status, milliseconds. */
const graceMs = 2000;

type Service = InstanceType<Awaited<ReturnType<typeof loadGrpcPart>>['ControlService']>;

export class ControlSocket {
  readonly #controlled: Controlled;
  readonly #log: Logger;
  #server: Server | undefined;
  #service: Promise<Service> | undefined;

  constructor(controlled: Controlled, log: Logger) {
    this.#controlled = controlled;
    this.#log = log;
  }

  /** Listens in `directory`, which only root can enter. */
  async listen(directory: string): Promise<void> {
    const path = join(directory, controlSocketName);
    try {
      const { createServer } = await import('node:net');
      // The socket of a killed session: this folder belongs to one CRIU.
      rmSync(path, { force: true });
      const server = createServer((socket) => void this.#serve(socket));
      this.#server = server;
      server.maxConnections = maxClients;
      await once(server.listen(path), 'listening');
      server.on('error', (err) => this.#warn(err));
      chmodSync(path, 0o600);
    } catch (error) {
      this.#warn(error);
    }
  }

  /** Sends watchers the last status. */
  async end(): Promise<void> {
    this.#server?.close();
    try {
      await (await this.#service)?.end(graceMs);
    } catch (error) {
      this.#warn(error);
    }
  }

  async #serve(socket: Socket): Promise<void> {
    // A client that goes away or breaks the protocol harms only itself.
    socket.on('error', () => undefined);
    try {
      this.#service ??= loadGrpcPart().then(
        ({ ControlService }) => new ControlService(this.#controlled),
      );
      (await this.#service).adopt(socket);
    } catch (error) {
      socket.destroy();
      this.#warn(error);
    }
  }

  #warn(err: unknown): void {
    this.#log.warn({ err }, 'cannot be watched');
  }
}
