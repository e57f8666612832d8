/** containerd as the engine of a migration: a verb of ours does what takes more than one call of ctr. */

import { join } from 'node:path';
import { ContainerdContainer } from '../containerd/container.js';
import { namePattern } from '../containerd/ctr.js';
import { taskFiles } from '../containerd/moving.js';
import { KfdError, printable } from '../errors.js';
import type { Command, Engine, EngineSetting } from './engine.js';
import { wholeFolder } from './gpu-folders.js';
import type { JournalRecord } from './journal.js';
import { archiveName, placesBelow } from './places.js';

/** The hidden verb. */
export const taskVerb = 'migrate-task';

/** The namespace of `ctr` without the option. */
export const usualNamespace = 'default';

/** What the source keeps: the folder of the checkpoint. */
const folderName = 'task';

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
  const whole = join(placesBelow(root).keptOf(id), folderName);
  const words = (...own: string[]): Command => {
    const usual = ['--root', root, '--namespace', namespace, '--format', 'json'];
    return [node, ...before, taskVerb, ...usual, ...own];
  };
  return {
    checkpointName: `checkpoint of ${container}`,
    whole,
    dumpImage: join(whole, taskFiles.image),
    container: new ContainerdContainer({ namespace, id: container }, run, root),
    checkpoint: () => words('save', container, whole),
    round: () => words('round', container, whole),
    memoryAhead: () => {
      throw new KfdError('E_INTERNAL', 'containerd: no memory is sent ahead');
    },
    removeMemoryAhead: async () => undefined,
    bringBack: (contents) => words('restore', ...contents, container, whole),
    start: {
      command: ({ folder, contents }) => {
        const document = join(folder, archiveName);
        return words('start', ...contents, container, document, wholeFolder(folder), folder);
      },
    },
    image: (folder) => join(wholeFolder(folder), taskFiles.image),
  };
}
