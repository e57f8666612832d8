/** Turns errors into two or three lines and an exit code. */

import { CommanderError } from 'commander';
import { asKfdError, type ErrorCode, exitCodes, KfdError, printable } from '../errors.js';

/** Another program has failed and has printed the reason. Its status becomes ours, without another message. */
export class ProgramFailure extends Error {
  readonly status: number;

  constructor(status: number) {
    super(`status ${status}`);
    this.status = status;
  }
}

/** Hints for errors without one. */
const hints: Partial<Record<ErrorCode, string>> = {
  E_USAGE: 'see "kfd-checkpoint --help"',
  E_NOT_FOUND: 'check the path',
  E_IO: 'check permissions and free space, then try again',
  E_CANCELLED: 'run the command again',
  E_TOO_LATE: 'wait until the session ends',
  E_INTERNAL: 'this is a bug; please report it with the command line and this message',
};

/** "Error:", "Hint:" and, if there is a log, "Log:", one line each. */
export function failureText(error: KfdError): string {
  const log = error.details?.['log'];
  return [
    `Error: ${printable(error.message)}`,
    `Hint:  ${printable(error.hint ?? hints[error.code] ?? 'run "kfd-checkpoint check"')}`,
    ...(typeof log === 'string' ? [`Log:   ${printable(log)}`] : []),
    '',
  ].join('\n');
}

/** Converts an error of a verb or of commander. Undefined: commander has shown help, which is no failure. */
export function failureOf(error: unknown): KfdError | undefined {
  if (!(error instanceof CommanderError)) return asKfdError(error, 'kfd-checkpoint');
  if (error.exitCode === 0) return undefined;
  const [message = '', suggestion] = error.message.replace(/^error: /, '').split('\n');
  // The second line of commander is "(Did you mean VERB?)".
  const meant = /Did you mean (?:one of )?(.*)\?/.exec(suggestion ?? '')?.[1];
  const hint = meant && `did you mean ${meant}? See "kfd-checkpoint --help"`;
  return new KfdError('E_USAGE', message, { cause: error, ...(hint && { hint }) });
}

export function exitCodeOf(error: KfdError): number {
  return exitCodes[error.code];
}
