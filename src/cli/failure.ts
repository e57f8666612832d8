/** The edge where errors become three lines and an exit code. */

import { CommanderError } from 'commander';
import { asKfdError, type ErrorCode, exitCodes, KfdError } from '../errors.js';
import { printable } from './format.js';

/** Another program has failed and said why: its status becomes ours, without a word. */
export class PassedOn extends Error {
  readonly status: number;

  constructor(status: number) {
    super(`status ${status}`);
    this.status = status;
  }
}

/** Next steps for errors that brought none of their own. */
const hints: Partial<Record<ErrorCode, string>> = {
  E_USAGE: 'see "kfd-checkpoint --help"',
  E_NOT_FOUND: 'check the path',
  E_IO: 'check permissions and free space, then try again',
  E_CANCELLED: 'run the command again',
  E_TOO_LATE: 'wait for its end',
  E_INTERNAL: 'this is a bug; please report it with the command line and this message',
};

/** "Error:", "Hint:" and, where there is one, "Log:", one line each. */
export function failureText(error: KfdError): string {
  const log = error.details?.['log'];
  return [
    `Error: ${printable(error.message)}`,
    `Hint:  ${printable(error.hint ?? hints[error.code] ?? 'run "kfd-checkpoint check"')}`,
    ...(typeof log === 'string' ? [`Log:   ${printable(log)}`] : []),
    '',
  ].join('\n');
}

/** Anything thrown by a verb or by commander; undefined for "help was shown", which is no failure. */
export function failureOf(error: unknown): KfdError | undefined {
  if (!(error instanceof CommanderError)) return asKfdError(error, 'kfd-checkpoint');
  if (error.exitCode === 0) return undefined;
  const [message = '', suggestion] = error.message.replace(/^error: /, '').split('\n');
  // Commander's second line is "(Did you mean VERB?)".
  const meant = /Did you mean (?:one of )?(.*)\?/.exec(suggestion ?? '')?.[1];
  const hint = meant && `did you mean ${meant}? See "kfd-checkpoint --help"`;
  return new KfdError('E_USAGE', message, { cause: error, ...(hint && { hint }) });
}

export function exitCodeOf(error: KfdError): number {
  return exitCodes[error.code];
}
