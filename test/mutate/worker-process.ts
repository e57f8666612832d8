/** A worker as its parent sees it: one test file, loaded once, and orders for it. */

import { type ChildProcess, spawn } from 'node:child_process';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Order, Report } from './messages.js';
import { temporary, tree } from './tree.js';

/** Milliseconds for a test file to load on a busy machine. */
const loadMs = 300_000;
let count = 0;

export class Worker {
  readonly #child: ChildProcess;
  readonly #hitsFile: string;

  /** `mutant`: is on while the file is loaded. */
  constructor(file: string, mutant = -1) {
    this.#hitsFile = join(temporary, `hits-${count++}`);
    const env = { ...process.env, TMPDIR: temporary, KFD_MUTANT: String(mutant) };
    const program = join(tree, 'dist/test/mutate/worker.js');
    // A group of its own: programs that a test started end with it.
    const args = ['--no-warnings', program, join(tree, file), this.#hitsFile];
    this.#child = spawn(process.execPath, args, {
      cwd: tree,
      detached: true,
      env,
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    });
  }

  loaded(): Promise<Report> {
    return this.#next(loadMs);
  }

  run(order: Order): Promise<Report> {
    this.#child.send(order, () => undefined);
    return this.#next(order.ms * order.tests.length + 5000);
  }

  /** Ends the worker and everything that it started. */
  end(): void {
    const { pid } = this.#child;
    try {
      if (pid !== undefined) process.kill(-pid, 'SIGKILL');
    } catch {
      // It has ended.
    }
    rmSync(this.#hitsFile, { force: true });
  }

  #next(ms: number): Promise<Report> {
    return new Promise((resolve) => {
      const done = (report: Report) => {
        clearTimeout(timer);
        this.#child.off('message', done);
        this.#child.off('exit', ended);
        resolve(report);
      };
      const ended = () => done({ kind: 'crashed', reason: 'the process ended' });
      const timer = setTimeout(() => done({ kind: 'crashed', reason: 'late' }), ms);
      this.#child.on('message', done);
      this.#child.on('exit', ended);
      if (this.#child.exitCode !== null || this.#child.signalCode !== null) ended();
    });
  }
}
