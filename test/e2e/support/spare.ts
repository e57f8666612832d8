/** A spare session that is always there, as its unit keeps it. The usual guest has no systemd. */

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { until } from './command.js';
import { prefix } from './product.js';

const socket = '/run/kfd-checkpoint/spare.sock';

export class SpareUnit {
  #process: ChildProcess | undefined;
  #ended = Promise.resolve();
  #isWanted = true;

  /** Returns when one waits for work. */
  async start(): Promise<void> {
    this.#isWanted = true;
    this.#ended = this.#keep();
    await this.waits();
  }

  async #keep(): Promise<void> {
    while (this.#isWanted) {
      const words = [join(prefix, 'dist/src/session/main.js'), 'spare'];
      this.#process = spawn(join(prefix, 'libexec/node'), words, { stdio: 'ignore' });
      await once(this.#process, 'exit');
    }
  }

  async waits(): Promise<void> {
    await until('a spare session', () => existsSync(socket));
  }

  /** The process that waits, or works. */
  get pid(): number | undefined {
    return this.#process?.pid;
  }

  /** As `systemctl stop`: a session at work goes on, and this returns when it has ended. */
  async stop(): Promise<void> {
    this.#isWanted = false;
    this.#process?.kill('SIGUSR2');
    this.#process?.kill('SIGCONT');
    await this.#ended;
  }
}
