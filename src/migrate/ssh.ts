/** The system's ssh: its configuration, its agents. It asks for passwords on the terminal. */

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { KfdError, printable } from '../errors.js';
import { missing } from '../os/exec.js';

/** A connection that breaks is noticed after 15 s. */
const options = ['-T', '-o', 'ServerAliveInterval=5', '-o', 'ServerAliveCountMax=3'];
/** The last of what ssh and the other side print to standard error, characters. */
const maxSaid = 4096;
/**
 * How long what ssh has printed is waited for when it has ended. With ControlPersist a process that stays has its
 * standard error, which never ends then (ssh_config(5)).
 */
const restMs = 500;
/** How long it may take to end when it is asked to. */
const obeyMs = 5000;
/** How long its standard output is read at most when it has ended. */
const lastWordsMs = 10_000;

export class Ssh {
  readonly child: ChildProcess;
  readonly host: string;
  /** The exit status; undefined when a signal has ended it. */
  readonly ended: Promise<number | undefined>;
  #said = '';

  /**
   * Runs a program there. `host`: [USER@]HOST. `input`: a descriptor, a stream that has one, or a pipe from here.
   * Throws E_USAGE for what ssh would take for an option, E_HOST without ssh.
   */
  static async open(
    host: string,
    words: readonly string[],
    input: number | Readable | 'pipe' = 'pipe',
  ): Promise<Ssh> {
    if (!/^[^\s-][^\s]*$/.test(host)) {
      throw new KfdError('E_USAGE', `${host}: not [USER@]HOST`);
    }
    const child = spawn('ssh', [...options, '--', host, ...words], {
      stdio: [input, 'pipe', 'pipe'],
    });
    try {
      await once(child, 'spawn');
    } catch (error) {
      throw missing('ssh', error as Error);
    }
    return new Ssh(host, child);
  }

  private constructor(host: string, child: ChildProcess) {
    this.host = host;
    this.child = child;
    const closed = once(child, 'close');
    this.ended = once(child, 'exit').then(async ([status]) => {
      await Promise.race([closed, delay(restMs, undefined, { ref: false })]);
      child.stdin?.destroy();
      child.stderr?.destroy();
      // Its last words may not have been read yet. That process does not have its standard output.
      setTimeout(() => child.stdout?.destroy(), lastWordsMs).unref();
      return (status as number | null) ?? undefined;
    });
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#said = (this.#said + text).slice(-maxSaid);
    });
  }

  /** Ends it: one that was stopped, or hangs, by SIGKILL. */
  end(): void {
    this.child.kill('SIGTERM');
    const limit = setTimeout(() => this.child.kill('SIGKILL'), obeyMs);
    this.child.once('exit', () => clearTimeout(limit));
    if (this.child.exitCode !== null || this.child.signalCode !== null) clearTimeout(limit);
  }

  /** The same, and waits for it. */
  async close(): Promise<void> {
    this.end();
    await this.ended;
  }

  /** What was printed to standard error last. */
  get said(): string {
    return this.#said.trimEnd().split('\n').at(-1) ?? '';
  }

  /** Why it has ended: 255 is ssh's own failure, 127 the other shell's (ssh(1), EXIT STATUS). */
  async gone(): Promise<KfdError> {
    const status = await this.ended;
    const said = printable(this.said);
    const tail = said === '' ? '' : `: ${said}`;
    if (status === 255) {
      const hint = `make "ssh ${this.host} true" work`;
      return new KfdError('E_HOST', `ssh ${this.host}: no connection${tail}`, { hint });
    }
    if (status === 127) {
      const hint = 'install kfd-checkpoint there, in the PATH of ssh commands';
      return new KfdError('E_HOST', `${this.host}: has no kfd-checkpoint${tail}`, { hint });
    }
    const hint = `run "ssh ${this.host} kfd-checkpoint check"`;
    return new KfdError('E_HOST', `${this.host}: ended without an answer${tail}`, { hint });
  }
}
