/** `kfd-checkpoint checkpoint`: podman's checkpoint of a container, without the GPU contents that an earlier one has. */

import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { Argument, Command } from 'commander';
import { verifyCheckpoint } from '../archive/verify.js';
import {
  type ParentFile,
  parentFileName,
  parentFolderName,
  parentFolderPid,
} from '../criu/parent-folder.js';
import { runFolder } from '../criu/state-folder.js';
import { KfdError } from '../errors.js';
import { archiveNamePattern } from '../manifest/names.js';
import { processName, processNameIfAny } from '../os/ancestors.js';
import type { CommandContext } from './context.js';
import { PassedOn } from './failure.js';
import { progressOf } from './progress.js';
import { failOnProblems } from './verify.js';

interface CheckpointOptions {
  readonly parent: string;
  readonly quiet?: boolean;
  readonly run: string;
}

export function checkpointCommand(context: CommandContext): Command {
  return new Command('checkpoint')
    .description('checkpoint with podman, without GPU contents that an earlier archive holds')
    .requiredOption('--parent <archive>', 'the earlier archive; a restore will need it too')
    .addArgument(new Argument('<container>', 'name or id of a podman container'))
    .addArgument(
      new Argument('[flags...]', 'flags for "podman container checkpoint"; --export is required'),
    )
    .option('--quiet', 'print no progress')
    .option('--run <dir>', 'folder in which sessions look for the parent', runFolder)
    .passThroughOptions()
    .action((container: string, flags: string[], options: CheckpointOptions) =>
      checkpoint(container, flags, options, context),
    );
}

async function checkpoint(
  container: string,
  flags: readonly string[],
  { parent, quiet, run }: CheckpointOptions,
  context: CommandContext,
): Promise<void> {
  // In place nothing could be put back into one: podman restores what lies in the container's folder.
  if (!flags.some((flag) => /^(--export(=.*)?|-[aklRP]*e.*)$/.test(flag))) {
    throw new KfdError(
      'E_USAGE',
      'checkpoint: without --export FILE there is no place for a parent',
      {
        hint: 'a container is checkpointed in place by "podman container checkpoint"',
      },
    );
  }
  const archive = basename(resolve(parent));
  if (!archiveNamePattern.test(archive)) {
    throw new KfdError('E_USAGE', `${parent}: a name that cannot be recorded`, {
      hint: 'rename it: it is how the parent will be looked for',
    });
  }
  removeStale(run);
  const folder = join(run, parentFolderName(processName(process.pid)));
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  try {
    const files = await keepIndexes(parent, folder, context, quiet === true);
    const list: ParentFile = { archive, files };
    writeFileSync(join(folder, parentFileName), JSON.stringify(list), { mode: 0o600 });
    const { runThrough, signal } = context;
    const args = ['container', 'checkpoint', container, ...flags];
    const status = await runThrough('podman', args, undefined, signal);
    if (status !== 0) throw new PassedOn(status);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** What commands left that were killed: no session looks there any more. */
function removeStale(run: string): void {
  for (const name of existsSync(run) ? readdirSync(run) : []) {
    const pid = parentFolderPid(name);
    if (pid === undefined) continue;
    const living = processNameIfAny(pid);
    if (living !== undefined && parentFolderName(living) === name) continue;
    rmSync(join(run, name), { recursive: true, force: true });
  }
}

/**
 * Reads all of the parent and keeps what tells which contents it has: names of its pages files. Throws E_IMAGE_CORRUPT
 * for one that is not sound, E_IMAGE_UNSEALED, E_IMAGE_MISSING for one without GPU contents, E_UNSUPPORTED_STATE for one without digests: before anything is
 * paused.
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
      hint: 'name an archive of the same container that kfd-checkpoint took part in',
    });
  }
  const silent = pages.find(({ digests }) => digests === false);
  if (silent !== undefined) {
    throw new KfdError(
      'E_UNSUPPORTED_STATE',
      `${parent}: ${silent.name} has no digests by which its contents are known`,
      { hint: 'take a checkpoint without a parent; that one can be the parent of later ones' },
    );
  }
  return pages.map(({ name }) => name);
}
