/** podman as the engine of a migration. `kfd-checkpoint restore` restores, podman does the rest. */

import { existsSync, promises } from 'node:fs';
import { join } from 'node:path';
import type { Command, Engine, EngineSetting } from './engine.js';
import { archiveName, previousName } from './places.js';
import { PodmanContainer } from './podman.js';
import { ownFile } from './work.js';

/** Only memory: files of the container, and volumes, come with the checkpoint. */
const aheadFlags = [
  '--pre-checkpoint',
  '--ignore-rootfs',
  '--ignore-volumes',
  '--compress',
  'none',
] as const;

const exportFlags = ['--export', ownFile] as const;

/** `id`: the whole one. */
export function podmanEngine(id: string, { root, run, self }: EngineSetting): Engine {
  const container = new PodmanContainer(id, run, root);
  const saved = (...words: string[]): Command => [
    'podman',
    'container',
    'checkpoint',
    ...words,
    id,
  ];
  const [node, ...before] = self;
  const quietly = ['--root', root, '--quiet', '--format', 'json'];
  return {
    checkpointName: 'podman container checkpoint',
    container,
    form: 'file',
    memoryAheadName: 'podman container checkpoint --pre-checkpoint',
    checkpoint: (hasMemoryAhead) => {
      const previous = hasMemoryAhead ? ['--with-previous'] : [];
      return saved(...previous, '--compress', 'none', ...exportFlags);
    },
    round: () => saved('--leave-running'),
    memoryAhead: () => saved(...aheadFlags, ...exportFlags),
    removeMemoryAhead: async () => {
      const bundle = await container.bundle().catch(() => undefined);
      if (bundle === undefined) return;
      await promises
        .rm(join(bundle, 'pre-checkpoint'), { recursive: true, force: true })
        .catch(() => undefined);
    },
    clearWay: () => container.endLeftover(),
    bringBack: (contents) => [node, ...before, 'restore', ...quietly, ...contents, id],
    start: {
      words: ({ folder, contents, choices }) => [
        ...quietly,
        ...choices,
        ...contents,
        join(folder, archiveName),
        ...previousFlags(folder),
      ],
    },
  };
}

/** Flags of podman for a restore from what has arrived in `folder`. */
function previousFlags(folder: string): string[] {
  const path = join(folder, previousName);
  return existsSync(path) ? ['--import-previous', path] : [];
}
