/** The command line: its verbs, and the way from an error to an exit code. */

import { Command } from 'commander';
import { cancelCommand } from './cancel.js';
import { checkCommand } from './check.js';
import { checkpointCommand } from './checkpoint.js';
import { configureCommand } from './configure.js';
import type { CommandContext } from './context.js';
import { exitCodeOf, failureOf, failureText, PassedOn } from './failure.js';
import { flattenCommand } from './flatten.js';
import { inspectCommand } from './inspect.js';
import { restoreCommand } from './restore.js';
import { sessionsCommand } from './sessions.js';
import { verifyCommand } from './verify.js';
import { versionCommand, versionText } from './version.js';
import { watchCommand } from './watch.js';

/** Runs one command line (without node and script); the exit code is the answer. Never throws. */
export async function runCommandLine(
  args: readonly string[],
  context: CommandContext,
): Promise<number> {
  const program = new Command('kfd-checkpoint')
    .description('checkpoint and restore for containers that use AMD GPUs')
    .version(versionText, '-V, --version', 'print the version')
    .helpCommand('help [verb]', 'what a verb does')
    // What stands behind an archive is the engine's: restoreCommand.
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
      // Usage errors come back as exceptions and are printed once, in our form.
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
    if (caught instanceof PassedOn) return caught.status;
    const failure = failureOf(caught);
    if (failure === undefined) return 0;
    context.err(failureText(failure));
    return exitCodeOf(failure);
  }
}
