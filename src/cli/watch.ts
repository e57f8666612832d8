/** `kfd-checkpoint watch`: follows a checkpoint or restore to its end, and exits with the code of its result. */

import { Argument, Command } from 'commander';
import { type ErrorCode, exitCodes, KfdError, printable } from '../errors.js';
import { SessionClient } from '../session/control/client.js';
import type { SessionResult, SessionStatus } from '../session/control/types.js';
import type { CommandContext } from './context.js';
import { KnownFailure } from './failure.js';
import { formatOption, jsonLine, rate, size } from './format.js';
import { type Progress, progressOf } from './progress.js';
import {
  chosenSession,
  operationOf,
  phaseOf,
  rateOf,
  rootOption,
  statusAsJson,
} from './sessions.js';

export const sessionArgument = (syntax: string) =>
  new Argument(syntax, 'process id of CRIU, as "kfd-checkpoint sessions" lists it');

export function watchCommand(context: CommandContext): Command {
  const { out, signal } = context;
  return new Command('watch')
    .addArgument(sessionArgument('[pid]'))
    .addOption(formatOption('text', 'json'))
    .addOption(rootOption())
    .action(async (pid: string | undefined, options: { root: string; format: 'text' | 'json' }) => {
      const criuPid = await chosenSession(options.root, pid, signal).catch((error: unknown) => {
        throw signal.aborted ? interrupted() : error;
      });
      const progress = progressOf(context);
      const shown =
        options.format === 'json'
          ? (status: SessionStatus) => out(jsonLine({ schema_version: 1, ...statusAsJson(status) }))
          : textOf(context, progress);
      const last = await SessionClient.with(options.root, criuPid, async (client) => {
        let newest: SessionStatus | undefined;
        for await (const status of client.watch(signal)) {
          shown(status);
          newest = status;
        }
        return newest;
      }).finally(progress.end);
      // Whoever ends the watch needs no message.
      if (signal.aborted) throw interrupted();
      failUnlessDone(criuPid, last);
    });
}

const interrupted = () => new KnownFailure(1, new KfdError('E_CANCELLED', 'watch: interrupted'));

/** A bar on a terminal. Otherwise a line for each phase and for each tenth of the bytes. */
function textOf(
  { out, isTerminal }: CommandContext,
  progress: Progress,
): (status: SessionStatus) => void {
  let printed = '';
  return (status) => {
    const { bytes_done: done, bytes_total: total, result } = status;
    const subject = `${operationOf(status)} ${status.criu_pid}`;
    if (result !== null) {
      progress.end();
      const bytes = result.success ? `, ${size(total)}` : '';
      out(`${printable(`${subject}: ${result.outcome}${bytes}`)}\n`);
      return;
    }
    const name = printable(`${subject}: ${phaseOf(status)}`);
    const speed = rateOf(status);
    const pace = speed === 0 ? '' : `, ${rate(speed)}`;
    if (isTerminal) {
      if (total === 0) progress.show(name);
      else progress.update(`${name}${pace}`, done, total);
      return;
    }
    const tenths = total === 0 ? 0 : Math.floor((10 * done) / total);
    if (printed === `${name} ${tenths}`) return;
    printed = `${name} ${tenths}`;
    out(`${name}, ${size(done)} of ${size(total)}${pace}\n`);
  };
}

/** Throws the error of a failed session. */
function failUnlessDone(criuPid: number, last: SessionStatus | undefined): void {
  const result = last?.result;
  if (result?.success === true) return;
  const log = last?.log_path;
  const details = log === undefined ? {} : { details: { log } };
  if (result === undefined || result === null) {
    throw new KfdError('E_NOT_FOUND', `session ${criuPid}: was killed`, details);
  }
  const reason =
    result.message || `session ${criuPid}: ${result.outcome}: CRIU has failed or was killed`;
  throw new KfdError(codeOf(result), reason, {
    hint: 'see the log, and the message of the container engine',
    ...details,
  });
}

/** Without a code the session has found nothing wrong: CRIU has failed. A newer session may have a code of its own. */
function codeOf({ code }: SessionResult): ErrorCode {
  return code !== '' && Object.hasOwn(exitCodes, code) ? code : 'E_IO';
}
