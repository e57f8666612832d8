/** Verbs that `migrate` starts itself: on the target by ssh, and the guard. Nobody types them, and no help has them. */

import { Argument, Command } from 'commander';
import { KfdError } from '../errors.js';
import { targetVerb } from '../migrate/connection.js';
import { contentsVerb, receiveContents, receiveStream } from '../migrate/contents.js';
import { watch } from '../migrate/guard.js';
import { placesBelow } from '../migrate/places.js';
import { countBytes, probeVerb } from '../migrate/probe.js';
import { armed, guardVerb, type HostSetting } from '../migrate/target-host.js';
import type { CommandContext } from './context.js';
import { formatOption } from './format.js';
import { serveSource } from './migrate-target.js';

export const hiddenVerbs: readonly string[] = [targetVerb, contentsVerb, guardVerb, probeVerb];

/** This program, as a process of its own. */
export function selfProgram(): HostSetting['self'] {
  return [process.execPath, ...process.execArgv, process.argv[1] ?? 'kfd-checkpoint'];
}

/** `self`: tests have another program. */
export function hiddenProgram(context: CommandContext, self = selfProgram()): Command {
  const { run } = context;
  const program = new Command('kfd-checkpoint').enablePositionalOptions();
  program.addCommand(
    withRoot(new Command(targetVerb)).action(({ root }: { root: string }) =>
      serveSource(process.stdin, process.stdout, { ...context, self }, root),
    ),
  );
  program.addCommand(
    withRoot(new Command(contentsVerb))
      .addArgument(idArgument())
      .option('--stream', 'take GPU contents while they are made, not the archive')
      .addOption(formatOption('text', 'json'))
      .action((id: string, { root, stream }: { root: string; stream?: boolean }) =>
        stream === true
          ? receiveStream(id, placesBelow(root), context.native.unpackContents, context.out)
          : receiveContents(id, placesBelow(root)),
      ),
  );
  program.addCommand(
    withRoot(new Command(probeVerb)).action(() => countBytes(process.stdin, context.out)),
  );
  program.addCommand(
    withRoot(new Command(guardVerb))
      .addArgument(idArgument())
      .action((id: string, { root }: { root: string }) =>
        watch(
          id,
          { root, run, self },
          () => context.out(armed),
          (line) => context.err(`${line}\n`),
        ),
      ),
  );
  return program;
}

const withRoot = (verb: Command) =>
  verb.option('--root <dir>', 'read the system below this folder', '/');

const idArgument = () =>
  new Argument('<id>', 'of the migration').argParser((id: string) => {
    if (/^[0-9a-f]{32}$/.test(id)) return id;
    throw new KfdError('E_USAGE', `${id}: not the id of a migration`);
  });
