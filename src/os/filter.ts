/** A program as a stream between its standard input and its standard output. */

import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { Duplex, type Readable, type Writable } from 'node:stream';
import { KfdError } from '../errors.js';
import { missing } from './exec.js';

/** Ends with E_HOST when there is no such program, with E_IO when it does not end with status 0. */
export class ProgramFilter extends Duplex {
  readonly #child: ChildProcessByStdio<Writable, Readable, null>;
  #inputEnded = false;

  constructor(command: string, args: readonly string[]) {
    super();
    this.#child = spawn(command, [...args], { stdio: ['pipe', 'pipe', 'ignore'] });
    this.#child.stdout.on('data', (chunk: Buffer) => {
      if (!this.push(chunk)) this.#child.stdout.pause();
    });
    // The exit status that follows says more than a broken pipe.
    this.#child.stdin.on('error', () => undefined);
    this.#child.on('error', (error) => this.destroy(missing(command, error)));
    this.#child.on('close', (status) => {
      if (status !== 0) {
        this.destroy(new KfdError('E_IO', `${command}: ended with status ${status}`));
      } else if (!this.#inputEnded) {
        // A write would wait for ever.
        this.destroy(new KfdError('E_IO', `${command}: ended before its input did`));
      } else {
        this.push(null);
      }
    });
  }

  override _read(): void {
    this.#child.stdout.resume();
  }

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    if (this.#child.stdin.write(chunk)) done();
    else this.#child.stdin.once('drain', done);
  }

  override _final(done: () => void): void {
    this.#inputEnded = true;
    this.#child.stdin.end();
    done();
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#child.kill();
    done(error);
  }
}
