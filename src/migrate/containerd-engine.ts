/** containerd as the engine of a migration: a verb of ours does what takes more than one call of ctr. */

import { join } from 'node:path';
import { ContainerdContainer } from '../containerd/container.js';
import { namePattern } from '../containerd/ctr.js';
import { taskFiles } from '../containerd/task-archive.js';
import { KfdError, printable } from '../errors.js';
import type { Command, Engine, EngineSetting } from './engine.js';
import type { JournalRecord } from './journal.js';
import { placesBelow } from './places.js';

/** The hidden verb. */
export const taskVerb = 'migrate-task';

/** Its option for a checkpoint after memory was saved. */
export const previousOption = '--previous';

/** The namespace of `ctr` without the option. */
export const usualNamespace = 'default';

/** The folder of the checkpoint, in that of the migration on either host. */
export const taskFolder = (folder: string) => join(folder, 'task');

/** `record`: `container` is the id in its namespace. Throws E_PROTOCOL for what is no name of containerd. */
export function containerdEngine(
  {
    id,
    container,
    namespace = usualNamespace,
  }: Pick<JournalRecord, 'id' | 'container' | 'namespace'>,
  { root, run, self }: EngineSetting,
): Engine {
  // The other host says what becomes a word of ctr.
  if (!namePattern.test(container)) {
    throw new KfdError(
      'E_PROTOCOL',
      `migration: "${printable(container)}" is no name of containerd`,
    );
  }
  const [node, ...before] = self;
  const kept = taskFolder(placesBelow(root).keptOf(id));
  const words = (...own: string[]): Command => {
    const usual = ['--root', root, '--namespace', namespace, '--format', 'json'];
    return [node, ...before, taskVerb, ...usual, ...own];
  };
  return {
    checkpointName: `checkpoint of ${container}`,
    kept,
    dumpImage: join(kept, taskFiles.image),
    container: new ContainerdContainer({ namespace, id: container }, run, root),
    form: 'task',
    memoryAheadName: `memory of ${container}`,
    checkpoint: (hasMemoryAhead) =>
      words('save', ...(hasMemoryAhead ? [previousOption] : []), container, kept),
    round: () => words('round', container, kept),
    memoryAhead: () => words('memory', container, kept),
    // It goes with the folder.
    removeMemoryAhead: async () => undefined,
    bringBack: (contents) => words('restore', ...contents, container, kept),
    start: {
      command: ({ folder, contents }) =>
        words('start', ...contents, container, taskFolder(folder), folder),
    },
    arrived: {
      image: (folder) => join(taskFolder(folder), taskFiles.image),
      record: (folder) => join(taskFolder(folder), taskFiles.record),
    },
  };
}
