/** The command line: its verbs, and how an error becomes an exit code. */

import { Command } from 'commander';
import { KfdError } from '../errors.js';
import { annotateCommand } from './annotate.js';
import { cancelCommand } from './cancel.js';
import { checkCommand } from './check.js';
import { checkpointCommand } from './checkpoint.js';
import { configureCommand } from './configure.js';
import type { CommandContext } from './context.js';
import { explained } from './explained.js';
import { exitCodeOf, failureJson, failureOf, failureReport, KnownFailure } from './failure.js';
import { flattenCommand } from './flatten.js';
import { isJson } from './format.js';
import { imageCommand } from './image.js';
import { inspectCommand } from './inspect.js';
import { migrateCommand } from './migrate.js';
import { hiddenProgram, hiddenVerbs } from './migrate-hidden.js';
import { restoreCommand } from './restore.js';
import { selftestCommand } from './selftest.js';
import { sessionsCommand } from './sessions.js';
import { verifyCommand } from './verify.js';
import { versionCommand, versionText } from './version.js';
import { watchCommand } from './watch.js';

/** Verbs with nothing to undo. A signal ends them, whatever they wait for. */
const readingVerbs: readonly string[] = [
  'cancel',
  'check',
  'inspect',
  'sessions',
  'verify',
  'watch',
];
/** Time in which an interrupted verb can say itself what it was doing. */
const obeyMs = 300;

/** The program and its verbs, before a command line is parsed. */
export function programFor(context: CommandContext): Command {
  const program = new Command('kfd-checkpoint')
    .description('checkpoint and restore containers that use AMD GPUs')
    .version(versionText, '-V, --version', 'print the version')
    .helpOption('-h, --help', 'show this help')
    .helpCommand('help [verb]', 'show the help of a verb')
    // Flags after an archive or a container are podman's: restoreCommand, checkpointCommand.
    .enablePositionalOptions();
  const verbs = [
    configureCommand,
    checkCommand,
    selftestCommand,
    checkpointCommand,
    inspectCommand,
    verifyCommand,
    restoreCommand,
    flattenCommand,
    imageCommand,
    annotateCommand,
    migrateCommand,
    sessionsCommand,
    watchCommand,
    cancelCommand,
    versionCommand,
  ];
  for (const verb of verbs) {
    program.addCommand(explained(verb(context)).helpOption('-h, --help', 'show this help'));
  }
  return program;
}

/** Runs one command line (without node and script) and returns its exit code. Never throws. */
export async function runCommandLine(
  args: readonly string[],
  context: CommandContext,
): Promise<number> {
  const isHidden = hiddenVerbs.includes(args[0] ?? '');
  const program = isHidden ? hiddenProgram(context) : programFor(context);
  for (const command of [program, ...program.commands]) {
    command.exitOverride().configureOutput({
      writeOut: context.out,
      // Usage errors arrive as exceptions, and failureText prints them.
      writeErr: () => undefined,
    });
  }
  try {
    if (args.length === 0) {
      context.err(program.helpInformation());
      return 2;
    }
    const work = program.parseAsync([...args], { from: 'user' });
    await (readingVerbs.includes(args[0] ?? '') ? orAborted(work, context.signal) : work);
    return 0;
  } catch (caught) {
    if (caught instanceof KnownFailure) {
      if (isJson(args)) context.err(failureJson(caught.error));
      return caught.status;
    }
    const failure = failureOf(caught);
    if (failure === undefined) return 0;
    context.err(failureReport(failure, args));
    return exitCodeOf(failure);
  }
}

/** Waits for `work`. Throws E_CANCELLED when the signal comes and `work` does not obey it soon. */
async function orAborted(work: Promise<unknown>, signal: AbortSignal): Promise<void> {
  let stop = (): void => undefined;
  const interrupted = new Promise<never>((_, reject) => {
    const cancelled = new KfdError('E_CANCELLED', 'kfd-checkpoint: interrupted');
    stop = () => void setTimeout(() => reject(cancelled), obeyMs).unref();
  });
  signal.addEventListener('abort', stop, { once: true });
  try {
    await Promise.race([work, interrupted]);
  } finally {
    signal.removeEventListener('abort', stop);
  }
}
