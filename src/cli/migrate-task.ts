/** The hidden verb that a migration runs for a task of containerd, on either host. It outlives whoever has begun it. */

import { join } from 'node:path';
import { Argument, Command } from 'commander';
import { namePattern } from '../containerd/ctr.js';
import { type Host, restoreTask, roundOfTask, saveTask, startTask } from '../containerd/moving.js';
import { taskFiles } from '../containerd/task-archive.js';
import { saveMemory } from '../containerd/task-memory.js';
import { runFolder } from '../criu/state-folder.js';
import type { TaskName } from '../criu/task-link.js';
import { KfdError } from '../errors.js';
import { rootsOf } from '../manifest/elsewhere.js';
import { readManifest } from '../manifest/image.js';
import { previousOption, taskVerb, usualNamespace } from '../migrate/containerd-engine.js';
import { ownFile } from '../migrate/work.js';
import { withRequest } from './command-request.js';
import { contentsOption, realFolders } from './contents-folders.js';
import { formatOption } from './format.js';

interface Options {
  readonly root: string;
  readonly namespace: string;
}

/** `run`: of the host; `archive`: the file for what is saved, another one in tests. */
export function taskCommand(run: Host['run'], archive = ownFile): Command {
  const verb = new Command(taskVerb)
    .option('--root <dir>', 'read the system below this folder', '/')
    .option('--namespace <name>', 'of containerd', checkedName, usualNamespace)
    .addOption(formatOption('text', 'json'));
  const host = () => {
    const { root } = verb.opts<Options>();
    return { root, run, runFolder: join(root, runFolder) };
  };
  const named = (id: string): TaskName => ({ namespace: verb.opts<Options>().namespace, id });
  const own = (name: string, ...args: string[]) => {
    const command = verb.command(name).addArgument(idArgument());
    for (const arg of args) command.argument(`<${arg}>`);
    return command;
  };
  own('memory', 'folder').action((id: string, folder: string) =>
    saveMemory(named(id), folder, archive, host()),
  );
  own('save', 'folder')
    .option(previousOption, 'save what has changed since "memory"')
    .action((id: string, folder: string, { previous }: { previous?: boolean }) =>
      saveTask(named(id), folder, { archive, hasMemory: previous === true }, host()),
    );
  own('round', 'folder').action((id: string, folder: string) =>
    roundOfTask(named(id), folder, host()),
  );
  own('restore', 'folder')
    .addOption(contentsOption())
    .action((id: string, folder: string, { contents }: Contents) =>
      whileAsked(folder, contents, host(), () => restoreTask(named(id), folder, host())),
    );
  own('start', 'folder', 'room')
    .addOption(contentsOption())
    .action((id: string, folder: string, room: string, { contents }: Contents) =>
      whileAsked(folder, contents, host(), () => startTask(named(id), folder, room, host())),
    );
  return verb;
}

interface Contents {
  readonly contents?: readonly string[];
}

/** Calls `work` while a session finds these folders for the image in `folder`. */
async function whileAsked(
  folder: string,
  contents: readonly string[] | undefined,
  { runFolder: place }: Required<Host>,
  work: () => Promise<void>,
): Promise<void> {
  if (contents === undefined) return work();
  const roots = rootsOf(await readManifest(join(folder, taskFiles.image)));
  const request = { operation: 'restore', roots, folders: await realFolders(contents) } as const;
  await withRequest(place, request, work);
}

const idArgument = () => new Argument('<id>', 'of the container').argParser(checkedName);

function checkedName(text: string): string {
  if (text.length <= 76 && namePattern.test(text)) return text;
  throw new KfdError('E_USAGE', `${text}: no name of containerd`);
}
