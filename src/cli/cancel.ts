/**
 * `kfd-checkpoint cancel`: stops a checkpoint or a restore. The container of a checkpoint runs on. A
 * restore leaves nothing behind.
 */

import { Command } from 'commander';
import { SessionClient } from '../session/control/client.js';
import type { CommandContext } from './context.js';
import { chosenSession, rootOption } from './sessions.js';
import { sessionArgument } from './watch.js';

export function cancelCommand({ out, signal }: CommandContext): Command {
  return new Command('cancel')
    .description('stop a running checkpoint or restore')
    .addArgument(sessionArgument('<pid>'))
    .option('--reason <text>', 'reason to write into the logs', 'by kfd-checkpoint cancel')
    .addOption(rootOption())
    .action(async (pid: string, { root, reason }: { root: string; reason: string }) => {
      const criuPid = await chosenSession(root, pid, signal);
      await SessionClient.with(root, criuPid, (client) => client.cancel(reason, signal));
      out(`session ${criuPid}: cancelled\n`);
    });
}
