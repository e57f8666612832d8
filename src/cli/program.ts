/** The command line: its verbs, and how an error becomes an exit code. */

import { Command } from 'commander';
import { cancelCommand } from './cancel.js';
import { checkCommand } from './check.js';
import { checkpointCommand } from './checkpoint.js';
import { configureCommand } from './configure.js';
import type { CommandContext } from './context.js';
import { exitCodeOf, failureOf, failureText, ProgramFailure } from './failure.js';
import { flattenCommand } from './flatten.js';
import { inspectCommand } from './inspect.js';
import { restoreCommand } from './restore.js';
import { sessionsCommand } from './sessions.js';
import { verifyCommand } from './verify.js';
import { versionCommand, versionText } from './version.js';
import { watchCommand } from './watch.js';

/** Runs one command line (without node and script) and returns its exit code. Never throws. */
export async function runCommandLine(
  args: readonly string[],
  context: CommandContext,
): Promise<number> {
  const program = new Command('kfd-checkpoint')
    .description('checkpoint and restore containers that use AMD GPUs')
    .version(versionText, '-V, --version', 'print the version')
    .helpCommand('help [verb]', 'show the help of a verb')
    // Flags after an archive or a container are podman's: restoreCommand, checkpointCommand.
    .enablePositionalOptions();
  const verbs = [
    configureCommand,
    checkCommand,
    checkpointCommand,
    inspectCommand,
    verifyCommand,
    restoreCommand,
    flattenCommand,
    sessionsCommand,
    watchCommand,
    cancelCommand,
    versionCommand,
  ];
  for (const verb of verbs) program.addCommand(verb(context));
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
    await program.parseAsync([...args], { from: 'user' });
    return 0;
  } catch (caught) {
    if (caught instanceof ProgramFailure) return caught.status;
    const failure = failureOf(caught);
    if (failure === undefined) return 0;
    context.err(failureText(failure));
    return exitCodeOf(failure);
  }
}
