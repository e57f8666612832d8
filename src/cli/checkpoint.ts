/**
 * `kfd-checkpoint checkpoint`: checkpoints a container with podman, without GPU contents that an earlier
 * archive holds.
 */

import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { Argument, Command } from 'commander';
import { imagePrefix } from '../archive/names.js';
import { verifyCheckpoint } from '../archive/verify.js';
import { commandFolderName } from '../criu/command-folder.js';
import { type ParentFile, parentFileName } from '../criu/parent-folder.js';
import { runFolder } from '../criu/state-folder.js';
import { KfdError, printable } from '../errors.js';
import { archiveNamePattern, manifestName } from '../manifest/names.js';
import { processName } from '../os/ancestors.js';
import { removeDeadFolders } from '../session/control/folders.js';
import { stage } from '../stages.js';
import type { CommandContext } from './context.js';
import { formatOption, json } from './format.js';
import { podman, podmanFailure } from './podman.js';
import { progressOf } from './progress.js';
import { containerOf } from './restore-target.js';
import { assertHostRoot } from './rootless.js';
import { failOnProblems } from './verify.js';

interface CheckpointOptions {
  readonly parent: string;
  readonly quiet?: boolean;
  readonly format: 'text' | 'json';
  readonly run: string;
}

export function checkpointCommand(context: CommandContext): Command {
  return new Command('checkpoint')
    .requiredOption('--parent <archive>', 'the earlier archive; a restore will need it too')
    .addArgument(new Argument('<container>', 'name or id of a podman container'))
    .addArgument(
      new Argument('[flags...]', 'flags for "podman container checkpoint"; --export is required'),
    )
    .option('--quiet', 'print no progress')
    .addOption(formatOption('text', 'json'))
    .option('--run <dir>', 'folder in which sessions look for the parent', runFolder)
    .passThroughOptions()
    .action((container: string, flags: string[], options: CheckpointOptions) =>
      checkpoint(container, flags, options, context),
    );
}

async function checkpoint(
  container: string,
  flags: readonly string[],
  { parent, quiet, format, run }: CheckpointOptions,
  context: CommandContext,
): Promise<void> {
  await assertHostRoot('checkpoint', context);
  if (flags.some((flag) => /^(--pre-checkpoint(=.*)?|-[aklR]*P.*)$/.test(flag))) {
    throw new KfdError('E_USAGE', 'checkpoint: a pre-checkpoint saves no GPU contents', {
      hint: 'run "podman container checkpoint --pre-checkpoint"; --parent is for the one that follows it',
    });
  }
  // A checkpoint in place cannot get its parent's contents back, because podman restores the container's folder.
  if (!flags.some((flag) => /^(--export(=.*)?|-[aklRP]*e.*)$/.test(flag))) {
    throw new KfdError('E_USAGE', 'checkpoint: --parent needs --export FILE', {
      hint: 'to checkpoint in place, use "podman container checkpoint"',
    });
  }
  const archive = basename(resolve(parent));
  if (!archiveNamePattern.test(archive)) {
    throw new KfdError('E_USAGE', `${parent}: this file name cannot be recorded`, {
      hint: 'rename the file: restores look for the parent by its name',
    });
  }
  removeDeadFolders(run);
  const folder = join(run, commandFolderName('parent', processName(process.pid)));
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  try {
    const files = await keepIndexes(parent, folder, context, quiet === true);
    const list: ParentFile = { archive, files };
    writeFileSync(join(folder, parentFileName), JSON.stringify(list), { mode: 0o600 });
    stage('cli', 'saving');
    const result = await podman(['checkpoint', container, ...flags], undefined, format, context);
    stage('cli', 'saved');
    if (result.status !== 0) {
      await explainInPlace(container, parent, context);
      throw podmanFailure(result);
    }
    if (format === 'json') {
      const report = { container, parent, parent_files: files, podman_output: result.printed };
      context.out(json({ schema_version: 1, ...report }));
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/**
 * Podman may have stopped the container before it failed to write the archive. Then the only checkpoint is in the
 * container's own folder, and podman cannot restore it without the parent.
 */
async function explainInPlace(
  container: string,
  parent: string,
  { run, err }: CommandContext,
): Promise<void> {
  const found = await containerOf(container, run).catch(() => undefined);
  if (found === undefined || !existsSync(join(found.path, imagePrefix, manifestName))) return;
  const command = `kfd-checkpoint restore --parent ${resolve(parent)} ${container}`;
  err(`if the container has stopped, this brings it back: ${printable(command)}\n`);
}

/**
 * Reads the whole parent and keeps the indexes of its contents. Returns the names of its pages files.
 * An error comes before anything is paused:
 * - E_IMAGE_CORRUPT and E_IMAGE_UNSEALED: the parent is not sound
 * - E_IMAGE_MISSING: the parent has no GPU contents
 * - E_UNSUPPORTED_STATE: the parent has no digests
 */
async function keepIndexes(
  parent: string,
  folder: string,
  context: CommandContext,
  quiet: boolean,
): Promise<string[]> {
  const { native, signal } = context;
  const progress = progressOf(context);
  const report = await verifyCheckpoint(parent, {
    zstdDecoder: native.zstdDecoder,
    verifier: native.verifier(),
    keepIndexes: folder,
    signal,
    ...(!quiet && { onProgress: progress.update }),
  }).finally(progress.end);
  failOnProblems(parent, report);
  const pages = report.files.filter(({ frames }) => frames !== undefined);
  if (pages.length === 0) {
    throw new KfdError('E_IMAGE_MISSING', `${parent}: has no GPU contents`, {
      hint: 'name an archive of the same container with GPU state',
    });
  }
  const withoutDigests = pages.find(({ digests }) => digests === false);
  if (withoutDigests !== undefined) {
    throw new KfdError(
      'E_UNSUPPORTED_STATE',
      `${parent}: ${withoutDigests.name} has no digests, so its contents cannot be compared`,
      { hint: 'take a checkpoint without a parent; that one can be the parent of later ones' },
    );
  }
  return pages.map(({ name }) => name);
}
