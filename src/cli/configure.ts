/** `kfd-checkpoint configure`: makes CRIU and a container engine use this installation, or undoes it. */

import { Argument, Command, Option } from 'commander';
import { KfdError } from '../errors.js';
import {
  apply,
  type FileChange,
  type Plan,
  planConfigure,
  planRefresh,
  planUndo,
} from './changes.js';
import { planContainerd, planUndoContainerd } from './containerd-changes.js';
import type { CommandContext } from './context.js';
import { diff } from './diff.js';
import { formatOption, json } from './format.js';
import type { Roots } from './roots.js';

interface ConfigureOptions {
  readonly undo?: boolean;
  readonly refresh?: boolean;
  readonly dryRun?: boolean;
  readonly root: string;
  readonly prefix: string;
  readonly containerd?: string;
  readonly edit?: boolean;
  readonly podAnnotations?: boolean;
  readonly format: 'text' | 'json';
}

export function configureCommand(context: CommandContext): Command {
  return new Command('configure')
    .addArgument(
      new Argument('[container-engine]', 'the container engine to set up')
        .choices(['podman', 'containerd'])
        .default('podman'),
    )
    .option('--undo', 'remove what configure wrote; all other lines stay')
    .addOption(
      new Option(
        '--refresh',
        'after an update: renew what configure wrote, for every engine that is set up',
      ).conflicts('undo'),
    )
    .option('--dry-run', 'print the changes as a diff and write nothing')
    .option('--root <dir>', 'change the system below this folder', '/')
    .option(
      '--prefix <dir>',
      'folder in which the installation will be at run time',
      context.prefix,
    )
    .option(
      '--containerd <release>',
      'release of containerd, such as 1.7; without it, containerd --version is run',
    )
    .option(
      '--edit',
      "write into containerd's own file where a drop-in would have no effect, as on nodes of Kubernetes",
    )
    .option('--pod-annotations', 'let pods name the image that containerd restores them from')
    .addOption(formatOption('text', 'json'))
    .action(async (containerEngine: string, options: ConfigureOptions, command: Command) => {
      if (options.refresh && command.args.length > 0) {
        throw new KfdError('E_USAGE', '--refresh: is for every engine, so it takes no name of one');
      }
      const roots = { root: options.root, prefix: options.prefix.replace(/(?<=.)\/+$/, '') };
      const plan = await planFor(containerEngine, roots, options, context);
      const dryRun = options.dryRun === true;
      if (options.format === 'text') return inText(plan, roots, dryRun, context);
      return inJson(plan, roots, dryRun, context, options.refresh ? undefined : containerEngine);
    });
}

/** What is to be changed for this engine, or for every engine after an update. Throws E_CONFIG, E_USAGE. */
async function planFor(
  containerEngine: string,
  roots: Roots,
  options: ConfigureOptions,
  context: CommandContext,
): Promise<Plan> {
  if (options.refresh) return { changes: await planRefresh(roots), notes: [] };
  if (containerEngine !== 'containerd' && (options.edit || options.podAnnotations)) {
    throw new KfdError('E_USAGE', '--edit and --pod-annotations: are for containerd alone');
  }
  if (containerEngine === 'containerd') return forContainerd(roots, options, context);
  return options.undo ? { changes: await planUndo(roots), notes: [] } : planConfigure(roots);
}

async function inText(
  { changes, notes }: Plan,
  roots: Roots,
  dryRun: boolean,
  context: CommandContext,
): Promise<void> {
  await eachChange(changes, roots, dryRun, context, (change) => {
    const { path, before, after } = change;
    context.out(dryRun ? diff(path, before, after) : `${verb(change).padEnd(9)} ${path}\n`);
  });
  for (const note of notes) context.err(`Note: ${note}\n`);
}

/** `engine`: undefined for every engine. */
async function inJson(
  { changes, notes }: Plan,
  roots: Roots,
  dryRun: boolean,
  context: CommandContext,
  engine: string | undefined,
): Promise<void> {
  const done: object[] = [];
  try {
    await eachChange(changes, roots, dryRun, context, (change) => {
      done.push(asJson(change, dryRun));
    });
  } finally {
    // What was changed before an error is told, too.
    const complete = done.length === changes.length;
    const report = { engine, dry_run: dryRun, complete, changes: done, notes };
    context.out(json({ schema_version: 1, ...report }));
  }
}

/** Makes the changes, unless this is a dry run, and tells each one. Throws E_CANCELLED, E_IO. */
async function eachChange(
  changes: readonly FileChange[],
  roots: Roots,
  dryRun: boolean,
  { signal }: CommandContext,
  tell: (change: FileChange) => void,
): Promise<void> {
  for (const change of changes) {
    // Between two files. The order of the files allows that at any place.
    if (signal.aborted) {
      throw new KfdError('E_CANCELLED', 'configure: interrupted before it had finished', {
        hint: 'run it again',
      });
    }
    if (!dryRun) await apply(roots, change);
    tell(change);
  }
}

function asJson(change: FileChange, dryRun: boolean) {
  const { path, before, after } = change;
  return { path, action: verb(change), ...(dryRun && { diff: diff(path, before, after) }) };
}

async function forContainerd(
  roots: Roots,
  options: ConfigureOptions,
  { run }: CommandContext,
): Promise<Plan> {
  if (options.undo) return planUndoContainerd(roots);
  const release = options.containerd ?? (await run('containerd', ['--version']))?.stdout;
  // "containerd github.com/containerd/containerd/v2 v2.1.9 REVISION", or only a release.
  const major = /(?:^|\s)v?(\d+)\.\d/.exec(release ?? '')?.[1];
  if (major === undefined) {
    throw new KfdError(
      'E_USAGE',
      `containerd: ${release?.trim() ?? 'not found'}: the release is not known`,
      {
        hint: 'name the release: --containerd 1.7, or --containerd 2.1',
      },
    );
  }
  const { edit = false, podAnnotations = false } = options;
  return planContainerd(roots, { major: Number(major), edit, podAnnotations });
}

function verb({ before, after }: FileChange): string {
  if (before === after) return after === undefined ? 'absent' : 'unchanged';
  if (after === undefined) return 'removed';
  return before === undefined ? 'wrote' : 'changed';
}
