/** A registry of container images, Debian's docker-registry, for as long as a scenario needs it. */

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { until } from './command.js';

const program = '/usr/bin/docker-registry';
/** In memory, where images are, too: the guest's disk has little room. */
const folder = '/var/lib/containers/registry';
const trust = '/etc/containers/registries.conf.d/lab.conf';
const port = 5000;

export const registryHost = `127.0.0.1:${port}`;

/** Why there can be none here; undefined: there can. */
export const noRegistry = existsSync(program)
  ? undefined
  : 'docker-registry is not in this guest: npm run setup makes its image anew';

export class Registry {
  readonly #server: ChildProcess;

  private constructor(server: ChildProcess) {
    this.#server = server;
  }

  /** podman trusts it without TLS from then on. */
  static async start(): Promise<Registry> {
    mkdirSync(folder, { recursive: true });
    mkdirSync('/etc/containers/registries.conf.d', { recursive: true });
    writeFileSync(trust, `[[registry]]\nlocation = "${registryHost}"\ninsecure = true\n`);
    const storage = `storage:\n  filesystem:\n    rootdirectory: ${folder}/data\n`;
    const http = `http:\n  addr: ${registryHost}\n`;
    writeFileSync(`${folder}/config.yml`, `version: 0.1\n${storage}${http}`);
    const server = spawn(program, ['serve', `${folder}/config.yml`], { stdio: 'ignore' });
    const registry = new Registry(server);
    try {
      await until('the registry', () => {
        if (registry.#ended) throw new Error(`${program} has ended, status ${server.exitCode}`);
        return answers();
      });
    } catch (error) {
      await registry.stop();
      throw error;
    }
    return registry;
  }

  get #ended(): boolean {
    return this.#server.exitCode !== null || this.#server.signalCode !== null;
  }

  async stop(): Promise<void> {
    if (!this.#ended) {
      const ended = once(this.#server, 'exit');
      this.#server.kill('SIGKILL');
      await ended;
    }
    rmSync(folder, { recursive: true, force: true });
    rmSync(trust, { force: true });
  }
}

function answers(): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    const told = (answer: boolean) => {
      socket.destroy();
      resolve(answer);
    };
    socket.once('connect', () => told(true)).once('error', () => told(false));
  });
}
