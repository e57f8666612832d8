/** Running other programs: argument arrays only, bounded output, a deadline. */

import { execFile, spawn } from 'node:child_process';
import { constants } from 'node:os';
import { KfdError } from '../errors.js';

export interface RunResult {
  /** Exit status; undefined when it was killed, for example by the deadline. */
  readonly status: number | undefined;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a program to its end; undefined when there is no such program. Never throws. */
export type Run = (
  command: string,
  args: readonly string[],
  options?: { readonly timeoutMs?: number },
) => Promise<RunResult | undefined>;

export const run: Run = (command, args, options = {}) =>
  new Promise((resolve) => {
    const settings = { timeout: options.timeoutMs ?? 10_000, maxBuffer: 4 << 20, encoding: 'utf8' };
    execFile(command, [...args], settings as { encoding: 'utf8' }, (error, stdout, stderr) => {
      if (error === null) return resolve({ status: 0, stdout, stderr });
      const { code } = error as { code?: unknown };
      if (code === 'ENOENT' || code === 'EACCES') return resolve(undefined);
      resolve({ status: typeof code === 'number' ? code : undefined, stdout, stderr });
    });
  });

/** The most text that `Printed` takes, in characters; the rest is dropped. */
export const maxPrinted = 1 << 20;

/** Takes what a program prints to its standard output. */
export type Printed = (text: string) => void;

/**
 * Runs a program with our standard streams to its end. `descriptor` becomes its descriptor 3. Resolves with its status,
 * or 128 plus the number of the signal that ended it. `signal` sends SIGTERM. With `printed`, its standard output goes
 * there instead of to ours. Rejects with E_HOST when there is no such program.
 */
export type RunThrough = (
  command: string,
  args: readonly string[],
  descriptor: number | undefined,
  signal: AbortSignal,
  printed?: Printed,
) => Promise<number>;

export const runThrough: RunThrough = (command, args, descriptor, signal, printed) =>
  new Promise((resolve, reject) => {
    const child = spawn(command, [...args], {
      stdio: ['inherit', printed ? 'pipe' : 'inherit', 'inherit', descriptor ?? 'ignore'],
    });
    let room = maxPrinted;
    child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      printed?.(text.slice(0, room));
      room = Math.max(0, room - text.length);
    });
    const stop = () => void child.kill('SIGTERM');
    signal.addEventListener('abort', stop, { once: true });
    child.on('error', (error) => {
      signal.removeEventListener('abort', stop);
      reject(missing(command, error));
    });
    child.on('close', (status, name) => {
      signal.removeEventListener('abort', stop);
      resolve(status ?? 128 + (name === null ? 0 : constants.signals[name]));
    });
  });

/** The error for a failed `spawn`. */
export function missing(command: string, cause: Error): KfdError {
  return new KfdError('E_HOST', `${command}: cannot be started: ${cause.message}`, {
    cause,
    hint: `install ${command}`,
  });
}
