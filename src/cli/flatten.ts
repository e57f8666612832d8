/** `kfd-checkpoint flatten`: writes an archive that needs no parent any more. */

import { closeSync, constants, fsyncSync, openSync, renameSync, rmSync } from 'node:fs';
import { dirname } from 'node:path';
import { Argument, Command } from 'commander';
import { type Chain, findChain, flattened } from '../archive/flatten.js';
import { asKfdError, KfdError } from '../errors.js';
import { syncFolder } from '../os/files.js';
import { inWorkFolder } from '../os/temporary.js';
import type { CommandContext } from './context.js';
import { formatOption, json } from './format.js';
import { rewriteTo } from './rewrite-archive.js';

interface FlattenOptions {
  readonly parent?: readonly string[];
  readonly output: string;
  readonly quiet?: boolean;
  readonly format: 'text' | 'json';
}

/** For commander: collects all `--parent` options. */
export function appendParent(archive: string, before: readonly string[] = []): readonly string[] {
  return [...before, archive];
}

export function flattenCommand(context: CommandContext): Command {
  return new Command('flatten')
    .addArgument(new Argument('<archive>', 'archive from "kfd-checkpoint checkpoint --parent"'))
    .requiredOption('-o, --output <file>', 'name of the new archive; the file must not exist')
    .option(
      '--parent <archive>',
      'parent of the archive (default: the file beside it); repeat the option for its own parent',
      appendParent,
    )
    .option('--quiet', 'print no progress')
    .addOption(formatOption('text', 'json'))
    .action(async (path: string, options: FlattenOptions) => {
      const parents = await flatten(path, options, context);
      if (options.format === 'text') return;
      context.out(json({ schema_version: 1, archive: path, parents, output: options.output }));
    });
}

/** Returns the paths of the parents, the archive's own first. */
async function flatten(
  path: string,
  { parent = [], output, quiet }: FlattenOptions,
  context: CommandContext,
): Promise<string[]> {
  // Reserves the name first, so that no file of another program is replaced later.
  closeSync(created(output));
  try {
    const temporary = `${output}.${process.pid}.tmp`;
    const fd = created(temporary);
    let parents: string[];
    try {
      parents = await inWorkFolder(dirname(output), async (folder) => {
        const chain = await chainOf(path, parent, folder, context);
        const flatten = context.native.imageFlattener();
        const { files } = await flattened(chain, flatten, folder, context.signal);
        await rewriteTo(fd, path, files, context, { quiet: quiet === true });
        return chain.slice(1).map(({ contents }) => contents.path);
      });
      // Parents are removed after this, so the archive must outlive a power failure.
      fsyncSync(fd);
      renameSync(temporary, output);
    } catch (error) {
      rmSync(temporary, { force: true });
      throw error;
    } finally {
      closeSync(fd);
    }
    await syncFolder(dirname(output));
    return parents;
  } catch (error) {
    rmSync(output, { force: true });
    throw error;
  }
}

/** A descriptor of a new file. Throws E_IO, also where there is a file already: it is somebody else's. */
function created(path: string): number {
  const { O_RDWR, O_CREAT, O_EXCL } = constants;
  try {
    return openSync(path, O_RDWR | O_CREAT | O_EXCL, 0o600);
  } catch (error) {
    throw asKfdError(error, path);
  }
}

/** An archive and its ancestors. Throws as `findChain`, and E_USAGE for an archive without a parent. */
export async function chainOf(
  path: string,
  parents: readonly string[],
  folder: string,
  { native, signal }: CommandContext,
): Promise<Chain> {
  const options = { zstdDecoder: native.zstdDecoder, verifier: native.verifier(), signal };
  const chain = await findChain(path, parents, options, folder);
  if (chain.length > 1) return chain;
  throw new KfdError('E_USAGE', `${path}: has no parent`, {
    hint: 'it is complete: use it as it is',
  });
}
