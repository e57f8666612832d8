/** Stands before the registry, and counts what is sent to it. */

import { once } from 'node:events';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { registryHost } from './registry.js';

const trust = '/etc/containers/registries.conf.d/lab-relay.conf';
const [host = '', target = ''] = registryHost.split(':');

/** One for each lane, so that nobody counts the other's bytes. podman trusts it without TLS. */
export class CountingRelay {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #trust: string;
  readonly registry: string;
  /** Bytes to the registry until now. */
  sent = 0;

  private constructor(port: number) {
    this.registry = `${host}:${port}`;
    this.#trust = `${trust}.${port}.conf`;
    this.#server = createServer((client) => this.#relay(client));
  }

  static async start(port: number): Promise<CountingRelay> {
    const relay = new CountingRelay(port);
    mkdirSync('/etc/containers/registries.conf.d', { recursive: true });
    writeFileSync(relay.#trust, `[[registry]]\nlocation = "${relay.registry}"\ninsecure = true\n`);
    relay.#server.listen(port, host);
    await once(relay.#server, 'listening');
    return relay;
  }

  #relay(client: Socket): void {
    const registry = connect(Number(target), host);
    client.on('data', (bytes) => {
      this.sent += bytes.length;
    });
    client.pipe(registry);
    registry.pipe(client);
    for (const socket of [client, registry]) {
      this.#sockets.add(socket);
      // The other end of a connection that breaks is closed with it.
      socket.on('error', () => undefined);
      socket.on('close', () => {
        this.#sockets.delete(socket);
        client.destroy();
        registry.destroy();
      });
    }
  }

  async stop(): Promise<void> {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
    await once(this.#server, 'close');
    rmSync(this.#trust, { force: true });
  }
}
