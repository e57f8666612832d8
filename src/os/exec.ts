/** Running other programs: argument arrays only, bounded output, a deadline. */

import { execFile } from 'node:child_process';

export interface RunResult {
  /** Exit status; undefined when it was killed, by the deadline say. */
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
