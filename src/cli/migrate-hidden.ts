/** Verbs that `migrate` starts itself: on the target by ssh, and the guard. Nobody types them, and no help has them. */

import { text } from 'node:stream/consumers';
import { Argument, Command, Option } from 'commander';
import { KfdError } from '../errors.js';
import { receiveRound } from '../migrate/ahead.js';
import { receiveTask } from '../migrate/arriving-task.js';
import { targetVerb } from '../migrate/connection.js';
import { taskVerb } from '../migrate/containerd-engine.js';
import { contentsVerb, receiveContents, receiveStream } from '../migrate/contents.js';
import { maxRounds } from '../migrate/gpu-folders.js';
import { watch } from '../migrate/guard.js';
import { removeDeadFiles, removeIfEmpty } from '../migrate/leftovers.js';
import { placesBelow } from '../migrate/places.js';
import { countBytes, probeVerb } from '../migrate/probe.js';
import type { HostSetting } from '../migrate/setting.js';
import { armed, guardVerb, restoreVerb, watchWord } from '../migrate/standby.js';
import { sweepVerb } from '../migrate/store.js';
import { ownDescriptor } from '../migrate/work.js';
import type { CommandContext } from './context.js';
import { formatOption } from './format.js';
import { restoreWhenTold } from './migrate-restore.js';
import { serveSource } from './migrate-target.js';
import { taskCommand } from './migrate-task.js';

export const hiddenVerbs: readonly string[] = [
  targetVerb,
  contentsVerb,
  guardVerb,
  probeVerb,
  sweepVerb,
  restoreVerb,
  taskVerb,
];

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
      .option('--previous', 'take the archive with the memory that is sent ahead')
      .option('--task', 'take the archive of a task of containerd apart')
      .addOption(new Option('--round <n>', 'take GPU contents of a round ahead').argParser(roundOf))
      .addOption(formatOption('text', 'json'))
      .action((id: string, { root, stream, round, previous, task }: ContentsOptions) => {
        const places = placesBelow(root);
        if (round !== undefined) return receiveRound(id, round, places);
        const { unpackContents, receiveFile, forwardFile } = context.native;
        if (stream === true) return receiveStream(id, places, unpackContents, context.out);
        if (task === true) return receiveTask(id, places, forwardFile, previous === true);
        return receiveContents(id, places, receiveFile, previous === true);
      }),
  );
  program.addCommand(taskCommand(run));
  program.addCommand(
    withRoot(new Command(probeVerb)).action(() => countBytes(process.stdin, context.out)),
  );
  program.addCommand(
    withRoot(new Command(sweepVerb)).action(({ root }: { root: string }) =>
      removeDeadFiles(placesBelow(root), run),
    ),
  );
  program.addCommand(
    withRoot(new Command(guardVerb))
      .addArgument(idArgument())
      .action(async (id: string, { root }: { root: string }) => {
        // It starts before there is anything to watch.
        if ((await text(process.stdin)) !== watchWord)
          return removeIfEmpty(placesBelow(root).guardLog(id));
        return watch(
          id,
          { root, run, self, listPages: context.native.listPages },
          () => context.out(armed),
          (line) => context.err(`${line}\n`),
        );
      }),
  );
  program.addCommand(
    withRoot(new Command(restoreVerb))
      .addOption(formatOption('text', 'json'))
      .action(() => restoreWhenTold(context, ownDescriptor)),
  );
  return program;
}

interface ContentsOptions {
  readonly root: string;
  readonly stream?: boolean;
  readonly previous?: boolean;
  readonly task?: boolean;
  readonly round?: number;
}

const roundOf = (text: string) => {
  if (/^\d{1,2}$/.test(text) && Number(text) < maxRounds) return Number(text);
  throw new KfdError('E_USAGE', `--round ${text}: no round`);
};

const withRoot = (verb: Command) =>
  verb.option('--root <dir>', 'read the system below this folder', '/');

const idArgument = () =>
  new Argument('<id>', 'of the migration').argParser((id: string) => {
    if (/^[0-9a-f]{32}$/.test(id)) return id;
    throw new KfdError('E_USAGE', `${id}: not the id of a migration`);
  });
