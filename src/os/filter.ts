/** A program as a stream between its standard input and its standard output. */

import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { Duplex, type Readable, type Writable } from 'node:stream';
import { KfdError, printable } from '../errors.js';
import { missing } from './exec.js';

/** Characters of the program's messages that are kept. The last line becomes the reason of a failure. */
const maxSaid = 1024;

/** Ends with E_HOST when there is no such program, with E_IO when it does not end with status 0. */
export class ProgramFilter extends Duplex {
  readonly #child: ChildProcessByStdio<Writable, Readable, Readable>;
  #inputEnded = false;
  /** The end of what it says. */
  #said = '';

  constructor(command: string, args: readonly string[]) {
    super();
    this.#child = spawn(command, [...args], { stdio: ['pipe', 'pipe', 'pipe'] });
    this.#child.stdout.on('data', (chunk: Buffer) => {
      if (!this.push(chunk)) this.#child.stdout.pause();
    });
    this.#child.stderr.on('data', (chunk: Buffer) => {
      this.#said = (this.#said + chunk.toString('utf8')).slice(-maxSaid);
    });
    // The exit status that follows says more than a broken pipe.
    this.#child.stdin.on('error', () => undefined);
    this.#child.on('error', (error) => this.destroy(missing(command, error)));
    this.#child.on('close', (status) => {
      if (status !== 0) {
        const reason = this.#said.trim().split('\n').at(-1);
        const because = reason ? `: ${printable(reason)}` : '';
        this.destroy(new KfdError('E_IO', `${command}: ended with status ${status}${because}`));
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
