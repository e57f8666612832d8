/** `kfd-checkpoint inspect`: what a checkpoint holds, without unpacking it. */

import { Argument, Command, Option } from 'commander';
import { maxStateBytes, unsealed } from '../archive/completeness.js';
import { collect, readContents } from '../archive/contents.js';
import { imagePrefix } from '../archive/names.js';
import { type KfdObjects, kfdObjectsOf } from '../gpu/kfd-objects.js';
import { statePattern } from '../manifest/names.js';
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
      const objects = new Map<string, KfdObjects>();
      const walk = { zstdDecoder: native.zstdDecoder, signal };
      const contents = await readContents(path, walk, async (entry, content) => {
        const name = entry.name.startsWith(imagePrefix) ? entry.name.slice(imagePrefix.length) : '';
        if (!statePattern.test(name)) return;
        const known = kfdObjectsOf(await collect(entry, content, maxStateBytes));
        if (known !== undefined) objects.set(name, known);
      });
      const report = inspectReport(contents, objects);
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
