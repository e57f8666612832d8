/** `kfd-checkpoint version`. */

import { Command } from 'commander';
import { version } from '../version.js';
import type { Surroundings } from './surroundings.js';

export function versionCommand({ out }: Surroundings): Command {
  return new Command('version').description('print the version').action(() => {
    out(`kfd-checkpoint ${version}\n`);
  });
}
