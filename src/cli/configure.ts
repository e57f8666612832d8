/** `kfd-checkpoint configure`: tells CRIU and podman of this installation, or takes it back. */

import { Command } from 'commander';
import { apply, type FileChange, planConfigure, planUndo } from './changes.js';
import { diff } from './diff.js';
import type { Surroundings } from './surroundings.js';

interface ConfigureOptions {
  readonly undo?: boolean;
  readonly dryRun?: boolean;
  readonly root: string;
  readonly prefix: string;
}

export function configureCommand(surroundings: Surroundings): Command {
  return new Command('configure')
    .description('write (or undo) the drop-ins that make CRIU and podman use this installation')
    .option('--undo', 'remove what configure wrote; lines of others stay')
    .option('--dry-run', 'print the differences and write nothing')
    .option('--root <dir>', 'work on the system below this folder', '/')
    .option('--prefix <dir>', 'folder of the installation at run time', surroundings.prefix)
    .action(async (options: ConfigureOptions) => {
      const place = { root: options.root, prefix: options.prefix.replace(/(?<=.)\/+$/, '') };
      const changes = await (options.undo ? planUndo(place) : planConfigure(place));
      for (const change of changes) {
        if (options.dryRun) {
          surroundings.out(diff(change.path, change.before, change.after));
          continue;
        }
        await apply(place, change);
        surroundings.out(`${verb(change)} ${change.path}\n`);
      }
    });
}

function verb({ before, after }: FileChange): string {
  if (before === after) return after === undefined ? 'absent   ' : 'unchanged';
  if (after === undefined) return 'removed  ';
  return before === undefined ? 'wrote    ' : 'changed  ';
}
