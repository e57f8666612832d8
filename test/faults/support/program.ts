/** A program that is started, and looked at while it runs. */

import { type ChildProcess, spawn } from 'node:child_process';
import type { Outcome } from '../../e2e/support/command.js';
import { presence } from './victims.js';

export interface Ended extends Outcome {
  /** The signal that ended it. */
  readonly signal: string | null;
  /** It was ended because it took too long. */
  readonly hung: boolean;
}

export class Program {
  readonly #child: ChildProcess;
  readonly ended: Promise<Ended>;
  over = false;

  /** Ends it by SIGKILL after `limitS` seconds. */
  constructor(
    words: readonly string[],
    limitS: number,
    env: Readonly<Record<string, string>> = {},
  ) {
    const [program = '', ...args] = words;
    this.#child = spawn(program, args, {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, ...env },
    });
    const text = { stdout: '', stderr: '' };
    for (const name of ['stdout', 'stderr'] as const) {
      this.#child[name]?.setEncoding('utf8').on('data', (more: string) => {
        text[name] += more;
      });
    }
    let hung = false;
    const limit = setTimeout(() => {
      hung = true;
      text.stderr += `\nhangs: ${presence(this.pid)}`;
      this.#child.kill('SIGKILL');
    }, limitS * 1000);
    this.ended = new Promise((resolve, reject) => {
      this.#child.on('error', reject);
      // Not 'close': processes that outlive it may hold its pipes.
      this.#child.on('exit', (status, signal) => {
        clearTimeout(limit);
        this.over = true;
        setTimeout(() => {
          this.#child.stdout?.destroy();
          this.#child.stderr?.destroy();
          resolve({ status, signal, hung, stdout: text.stdout.trim(), stderr: text.stderr.trim() });
        }, 100);
      });
    });
  }

  get pid(): number {
    return this.#child.pid ?? -1;
  }
}
