/** A program that runs until it is ended, with its output in a file. */

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { openSync } from 'node:fs';
import { basename, join } from 'node:path';

/** test/kubelet/main.ts keeps them when a test fails. */
export const daemonLogs = '/tmp/daemons';

/** Bytes of memory from which on a program of Go collects garbage; guest-run has set too few for the big ones. */
export const memoryLimit = '1536MiB';

export class Daemon {
  readonly log: string;
  readonly #process: ChildProcess;
  readonly #ended: Promise<unknown>;

  constructor(program: string, args: readonly string[]) {
    this.log = join(daemonLogs, `${basename(program)}.log`);
    const log = openSync(this.log, 'a');
    const env = { ...process.env, GOMEMLIMIT: memoryLimit };
    this.#process = spawn(program, args, { stdio: ['ignore', log, log], env });
    this.#ended = once(this.#process, 'exit');
    this.#ended.catch(() => undefined);
  }

  /** Throws when it has ended. */
  assertAlive(): void {
    const { exitCode, signalCode, spawnfile } = this.#process;
    if (exitCode === null && signalCode === null) return;
    throw new Error(`${spawnfile} has ended (${exitCode ?? signalCode}): ${this.log}`);
  }

  async end(signal: 'SIGTERM' | 'SIGKILL' = 'SIGKILL'): Promise<void> {
    const { exitCode, signalCode } = this.#process;
    if (exitCode !== null || signalCode !== null) return;
    this.#process.kill(signal);
    await this.#ended;
  }
}
