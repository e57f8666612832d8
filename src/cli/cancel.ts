/**
 * `kfd-checkpoint cancel`: stops a checkpoint or a restore. The container of a checkpoint runs on. A
 * restore leaves nothing behind.
 */

import { Command } from 'commander';
import { SessionClient } from '../session/control/client.js';
import type { CommandContext } from './context.js';
import { formatOption, json } from './format.js';
import { chosenSession, rootOption } from './sessions.js';
import { sessionArgument } from './watch.js';

interface CancelOptions {
  readonly root: string;
  readonly reason: string;
  readonly format: 'text' | 'json';
}

export function cancelCommand({ out, signal }: CommandContext): Command {
  return new Command('cancel')
    .addArgument(sessionArgument('<pid>'))
    .option('--reason <text>', 'reason to write into the logs', 'by kfd-checkpoint cancel')
    .addOption(formatOption('text', 'json'))
    .addOption(rootOption())
    .action(async (pid: string, { root, reason, format }: CancelOptions) => {
      const criuPid = await chosenSession(root, pid, signal);
      await SessionClient.with(root, criuPid, (client) => client.cancel(reason, signal));
      out(
        format === 'json'
          ? json({ schema_version: 1, criu_pid: criuPid, cancelled: true, reason })
          : `session ${criuPid}: cancelled\n`,
      );
    });
}
