/** `kfd-checkpoint version`, the same as `--version`. */

import { Command } from 'commander';
import { version } from '../version.js';
import type { CommandContext } from './context.js';

export const versionText = `kfd-checkpoint ${version}`;

export function versionCommand({ out }: CommandContext): Command {
  return new Command('version').description('print the version').action(() => {
    out(`${versionText}\n`);
  });
}
