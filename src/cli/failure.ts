/** Turns errors into two or three lines or a line of JSON, and into an exit code. */

import { CommanderError } from 'commander';
import {
  asKfdError,
  describeError,
  type ErrorCode,
  exitCodes,
  KfdError,
  printable,
} from '../errors.js';
import { isJson, jsonLine } from './format.js';

/** A failure that people know of already: only programs that read JSON are told. */
export class KnownFailure extends Error {
  readonly status: number;
  readonly error: KfdError;

  constructor(status: number, error: KfdError) {
    super(error.message);
    this.status = status;
    this.error = error;
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

/** What to do next. Every error has it. */
function hintOf({ code, hint }: KfdError): string {
  return hint ?? hints[code] ?? 'run "kfd-checkpoint check"';
}

/** An error as `args` ask for it: text, or one line of JSON. */
export function failureReport(error: KfdError, args: readonly string[]): string {
  return isJson(args) ? failureJson(error) : failureText(error);
}

/** "Error:", "Hint:" and, if there is a log, "Log:", one line each. */
export function failureText(error: KfdError): string {
  const log = error.details?.['log'];
  return [
    `Error: ${printable(error.message)}`,
    `Hint:  ${printable(hintOf(error))}`,
    ...(typeof log === 'string' ? [`Log:   ${printable(log)}`] : []),
    '',
  ].join('\n');
}

/** One line, the last of standard error. */
export function failureJson(error: KfdError): string {
  const { code, message, details } = error;
  const described = { code, message, hint: hintOf(error), details, ...causeOf(error) };
  return jsonLine({ schema_version: 1, error: described });
}

/** The causes without stack traces, which are for logs. */
function causeOf(error: KfdError): { cause?: Record<string, unknown> } {
  const told = ({ stack: _, cause, ...rest }: Record<string, unknown>): Record<string, unknown> =>
    cause === undefined ? rest : { ...rest, cause: told(cause as Record<string, unknown>) };
  return error.cause === undefined ? {} : { cause: told(describeError(error.cause)) };
}

/** Converts an error of a verb or of commander. Undefined: commander has shown help, which is no failure. */
export function failureOf(error: unknown): KfdError | undefined {
  if (!(error instanceof CommanderError)) return asKfdError(error, 'kfd-checkpoint');
  if (error.exitCode === 0) return undefined;
  const [message = '', suggestion] = error.message.replace(/^error: /, '').split('\n');
  // The second line of commander is "(Did you mean VERB?)".
  const meant = /Did you mean (?:one of )?(.*)\?/.exec(suggestion ?? '')?.[1];
  const hint = meant && `did you mean ${meant}? See "kfd-checkpoint --help"`;
  return new KfdError('E_USAGE', message, hint ? { hint } : {});
}

export function exitCodeOf(error: KfdError): number {
  return exitCodes[error.code];
}
