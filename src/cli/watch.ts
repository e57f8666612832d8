/**
 * `kfd-checkpoint watch`: follows a checkpoint, a restore or a migration to its end, and exits with the code of its
 * result.
 */

import { Command } from 'commander';
import { type ErrorCode, exitCodes, KfdError } from '../errors.js';
import { SessionClient } from '../session/control/client.js';
import type { SessionResult, SessionStatus } from '../session/control/types.js';
import { chosen, sessionArgument } from './chosen.js';
import type { CommandContext } from './context.js';
import { KnownFailure } from './failure.js';
import { formatOption, jsonLine, size } from './format.js';
import { type Progress, progressOf } from './progress.js';
import { operationOf, phaseOf, rateOf, rootOption, statusAsJson } from './sessions.js';
import { watchMigration } from './watch-migration.js';
import { type Step, shownIn } from './watch-step.js';

interface WatchOptions {
  readonly root: string;
  readonly format: 'text' | 'json';
}

export function watchCommand(context: CommandContext): Command {
  const { signal } = context;
  return new Command('watch')
    .addArgument(sessionArgument('[session]'))
    .addOption(formatOption('text', 'json'))
    .addOption(rootOption())
    .action(async (name: string | undefined, options: WatchOptions) => {
      const what = await chosen(options.root, name, signal).catch((error: unknown) => {
        throw signal.aborted ? interrupted() : error;
      });
      const progress = progressOf(context);
      const end =
        what.kind === 'session'
          ? watchSession(what.criuPid, options, context, progress)
          : watchMigration(what, options.format, context, progress);
      const fail = await end.finally(progress.end);
      // Whoever ends the watch needs no message.
      if (signal.aborted) throw interrupted();
      fail();
    });
}

const interrupted = () => new KnownFailure(1, new KfdError('E_CANCELLED', 'watch: interrupted'));

/** Returns what throws the error of a session that has failed. */
async function watchSession(
  criuPid: number,
  { root, format }: WatchOptions,
  context: CommandContext,
  progress: Progress,
): Promise<() => void> {
  const { out, signal } = context;
  const text = shownIn(context, progress);
  const shown = (status: SessionStatus) =>
    format === 'json'
      ? out(jsonLine({ schema_version: 1, ...statusAsJson(status) }))
      : text(stepOf(status));
  const last = await SessionClient.with(root, criuPid, async (client) => {
    let newest: SessionStatus | undefined;
    for await (const status of client.watch(signal)) {
      shown(status);
      newest = status;
    }
    return newest;
  });
  return () => failUnlessDone(criuPid, last);
}

function stepOf(status: SessionStatus): Step {
  const { bytes_done: done, bytes_total: total, result } = status;
  const subject = `${operationOf(status)} ${status.criu_pid}`;
  const step = { subject, phase: phaseOf(status), done, total, speed: rateOf(status) };
  if (result === null) return step;
  return { ...step, outcome: `${result.outcome}${result.success ? `, ${size(total)}` : ''}` };
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
