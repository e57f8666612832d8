/** `kfd-checkpoint cancel`: a running checkpoint fails and its container goes on, a restore leaves nothing. */

import { Command } from 'commander';
import { SessionClient } from '../session/control/client.js';
import type { CommandContext } from './context.js';
import { chosenSession, rootOption } from './sessions.js';
import { sessionArgument } from './watch.js';

export function cancelCommand({ out }: CommandContext): Command {
  return new Command('cancel')
    .description('stop a running checkpoint or restore')
    .addArgument(sessionArgument('<pid>'))
    .option('--reason <text>', 'for the logs', 'by kfd-checkpoint cancel')
    .addOption(rootOption())
    .action(async (pid: string, { root, reason }: { root: string; reason: string }) => {
      const criuPid = await chosenSession(root, pid);
      await SessionClient.with(root, criuPid, (client) => client.cancel(reason));
      out(`session ${criuPid}: cancelled\n`);
    });
}
