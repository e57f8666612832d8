/**
 * `kfd-checkpoint cancel`: stops a checkpoint, a restore or a migration. The container of a checkpoint runs on, and so
 * does that of a migration, on the source. A restore leaves nothing behind.
 */

import { Command } from 'commander';
import { cancelAt } from '../migrate/control-client.js';
import { SessionClient } from '../session/control/client.js';
import { chosen, sessionArgument } from './chosen.js';
import type { CommandContext } from './context.js';
import { formatOption, json } from './format.js';
import { rootOption } from './sessions.js';

interface CancelOptions {
  readonly root: string;
  readonly reason: string;
  readonly format: 'text' | 'json';
}

export function cancelCommand({ out, signal }: CommandContext): Command {
  return new Command('cancel')
    .addArgument(sessionArgument('<session>'))
    .option('--reason <text>', 'reason to write into the logs', 'by kfd-checkpoint cancel')
    .addOption(formatOption('text', 'json'))
    .addOption(rootOption())
    .action(async (name: string, { root, reason, format }: CancelOptions) => {
      const what = await chosen(root, name, signal);
      const done = { cancelled: true, reason };
      if (what.kind === 'migration') {
        const { migration, container } = what.status;
        await cancelAt(what.socket, reason, signal);
        const report = { schema_version: 1, migration, container, ...done };
        out(format === 'json' ? json(report) : `migration of ${container}: cancelled\n`);
        return;
      }
      const { criuPid } = what;
      await SessionClient.with(root, criuPid, (client) => client.cancel(reason, signal));
      const report = { schema_version: 1, criu_pid: criuPid, ...done };
      out(format === 'json' ? json(report) : `session ${criuPid}: cancelled\n`);
    });
}
