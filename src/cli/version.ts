/** `kfd-checkpoint version`, the same as `--version`. */

import { Command } from 'commander';
import { version } from '../version.js';
import type { CommandContext } from './context.js';
import { formatOption, json } from './format.js';

export const versionText = `kfd-checkpoint ${version}`;

export function versionCommand({ out }: CommandContext): Command {
  return new Command('version')
    .addOption(formatOption('text', 'json'))
    .action(({ format }: { format: 'text' | 'json' }) => {
      const facts = { name: 'kfd-checkpoint', version, node: process.versions.node };
      out(format === 'json' ? json({ schema_version: 1, ...facts }) : `${versionText}\n`);
    });
}
