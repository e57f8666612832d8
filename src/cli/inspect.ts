/** `kfd-checkpoint inspect`: what a checkpoint holds, without unpacking it. */

import { Argument, Command, Option } from 'commander';
import { unsealed } from '../archive/completeness.js';
import { readContents } from '../archive/contents.js';
import { json, tree } from './format.js';
import { inspectReport } from './inspect-report.js';
import { inspectTable, inspectTree } from './inspect-text.js';
import type { Surroundings } from './surroundings.js';

export const checkpointArgument = () =>
  new Argument('<checkpoint>', 'archive, podman bundle or image directory');

export function inspectCommand(surroundings: Surroundings): Command {
  return new Command('inspect')
    .description('show what a checkpoint holds')
    .addArgument(checkpointArgument())
    .addOption(
      new Option('--format <format>', 'how to print')
        .choices(['table', 'tree', 'json'])
        .default('table'),
    )
    .action(async (path: string, options: { format: 'table' | 'tree' | 'json' }) => {
      const { signal, native } = surroundings;
      const contents = await readContents(path, { zstdDecoder: native.zstdDecoder, signal });
      const report = inspectReport(contents);
      switch (options.format) {
        case 'table':
          surroundings.out(inspectTable(report));
          break;
        case 'tree':
          surroundings.out(tree(inspectTree(report)));
          break;
        case 'json':
          surroundings.out(json(report));
          break;
      }
      if (report.gpu_state === 'unsealed') throw unsealed(path);
    });
}
