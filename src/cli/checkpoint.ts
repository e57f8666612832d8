/**
 * `kfd-checkpoint checkpoint`: checkpoints a container with podman, without GPU contents that an earlier checkpoint
 * holds, or with its contents in a folder of their own.
 */

import { resolve } from 'node:path';
import { Argument, Command } from 'commander';
import { runFolder } from '../criu/state-folder.js';
import { KfdError, printable } from '../errors.js';
import { hasPagesFiles } from '../manifest/image.js';
import { removeDeadFolders } from '../session/control/folders.js';
import { stage } from '../stages.js';
import { afterFailure, folderForContents } from './checkpoint-contents.js';
import { withRequest } from './command-request.js';
import { realFolders } from './contents-folders.js';
import type { CommandContext } from './context.js';
import { formatOption, json } from './format.js';
import { type Parent, recordedName, withParent } from './parent-indexes.js';
import { type PodmanResult, podman, podmanFailure } from './podman.js';
import { assertHostRoot } from './rootless.js';

interface CheckpointOptions {
  readonly parent?: string;
  readonly parentContents?: string;
  readonly contents?: string;
  readonly quiet?: boolean;
  readonly format: 'text' | 'json';
  readonly run: string;
}

export function checkpointCommand(context: CommandContext): Command {
  return new Command('checkpoint')
    .option('--parent <archive>', 'the earlier archive; a restore will need it too')
    .option('--parent-contents <dir>', 'the earlier contents, where they are in a folder')
    .option('--contents <dir>', 'folder for the GPU contents, which the archive will lack')
    .addArgument(new Argument('<container>', 'name or id of a podman container'))
    .addArgument(
      new Argument(
        '[flags...]',
        'flags for "podman container checkpoint"; --parent needs --export',
      ),
    )
    .option('--quiet', 'print no progress')
    .addOption(formatOption('text', 'json'))
    .option(
      '--run <dir>',
      'folder in which sessions look for the parent and the contents',
      runFolder,
    )
    .passThroughOptions()
    .action((container: string, flags: string[], options: CheckpointOptions) =>
      checkpoint(container, flags, options, context),
    );
}

async function checkpoint(
  container: string,
  flags: readonly string[],
  options: CheckpointOptions,
  context: CommandContext,
): Promise<void> {
  await assertHostRoot('checkpoint', context);
  assertUsage(flags, options);
  const { run, format, quiet } = options;
  const parent = await parentOf(options);
  if (parent !== undefined) recordedName(parent);
  removeDeadFolders(run);
  const contents =
    options.contents === undefined ? undefined : await folderForContents(options.contents);
  const saved = () =>
    staged(() => podman(['checkpoint', container, ...flags], undefined, format, context));
  const asked = () =>
    contents === undefined
      ? saved()
      : withRequest(run, { operation: 'dump', folder: contents }, saved);
  const isQuiet = quiet === true;
  const { files, result } = await withParent(run, parent, context, isQuiet, async (files) => ({
    files,
    result: await asked(),
  }));
  if (result.status !== 0) {
    const options = restoreOptions(parent, contents);
    await afterFailure({ container, options, contents, sessions: run }, context);
    throw podmanFailure(result);
  }
  if (contents !== undefined && !(await hasPagesFiles(contents))) {
    context.err(`${printable(contents)}: stays empty: no GPU contents were saved\n`);
  }
  if (format !== 'json') return;
  const report = {
    container,
    parent: options.parent ?? options.parentContents,
    ...(parent && { parent_files: files }),
    contents,
    podman_output: result.printed,
  };
  context.out(json({ schema_version: 1, ...report }));
}

function assertUsage(
  flags: readonly string[],
  { parent, parentContents, contents }: CheckpointOptions,
): void {
  if (parent === undefined && parentContents === undefined && contents === undefined) {
    throw new KfdError('E_USAGE', 'checkpoint: neither a parent nor a folder for the contents', {
      hint: 'name --parent or --contents, or use "podman container checkpoint"',
    });
  }
  const where = contents === undefined ? '--parent-contents' : '--contents';
  if (parent !== undefined && (parentContents ?? contents) !== undefined) {
    // A restore would need both in folders, or both in archives.
    throw new KfdError('E_USAGE', `checkpoint: --parent and ${where} exclude each other`, {
      hint: 'unpack the pages files of the parent into a folder, and name it with --parent-contents',
    });
  }
  if (flags.some((flag) => /^(--pre-checkpoint(=.*)?|-[aklR]*P.*)$/.test(flag))) {
    throw new KfdError('E_USAGE', 'checkpoint: a pre-checkpoint saves no GPU contents', {
      hint: 'run "podman container checkpoint --pre-checkpoint"; --parent is for the one that follows it',
    });
  }
  // Podman restores the container's folder, which gets contents of an archive only with difficulty.
  const isExported = flags.some((flag) => /^(--export(=.*)?|-[aklRP]*e.*)$/.test(flag));
  if (isExported || parent === undefined) return;
  throw new KfdError('E_USAGE', 'checkpoint: --parent needs --export FILE', {
    hint: 'to checkpoint in place, use "podman container checkpoint"',
  });
}

async function parentOf({
  parent,
  parentContents,
}: CheckpointOptions): Promise<Parent | undefined> {
  if (parent !== undefined) return { path: parent, isFolder: false };
  if (parentContents === undefined) return undefined;
  const [path = ''] = await realFolders([parentContents]);
  return { path, isFolder: true };
}

async function staged(work: () => Promise<PodmanResult>): Promise<PodmanResult> {
  stage('cli', 'saving');
  const result = await work();
  stage('cli', 'saved');
  return result;
}

/** What a restore of the checkpoint needs. */
function restoreOptions(parent: Parent | undefined, contents: string | undefined): string[] {
  const folders = [contents, parent?.isFolder === true ? parent.path : undefined];
  return [
    ...(parent?.isFolder === false ? ['--parent', resolve(parent.path)] : []),
    ...folders.flatMap((folder) => (folder === undefined ? [] : ['--contents', folder])),
  ];
}
