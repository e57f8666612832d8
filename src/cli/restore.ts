/**
 * `kfd-checkpoint restore`: restores an archive, an image, or a container in place, with podman. Before that it
 * changes recorded device numbers to the numbers of this host, where they differ.
 */

import { dirname } from 'node:path';
import { Argument, Command } from 'commander';
import { type Flattened, flattened } from '../archive/flatten.js';
import { readBundleSpec, replaceInPlace, replaceSpec } from '../archive/in-place.js';
import { exchangeImage, recoverImage } from '../archive/in-place-image.js';
import { type Replacements, tmpfsCollector } from '../archive/relocate.js';
import type { Contents } from '../archive/rewrite.js';
import { runFolder } from '../criu/state-folder.js';
import { KfdError, printable } from '../errors.js';
import { rootsOf } from '../manifest/elsewhere.js';
import { inWorkFolder } from '../os/temporary.js';
import { stage } from '../stages.js';
import { gpuMapOption, gpusOption, ignoreMismatchOption } from './check.js';
import { withRequest } from './command-request.js';
import { contentsOption, realFolders } from './contents-folders.js';
import type { CommandContext } from './context.js';
import { appendParent, chainOf } from './flatten.js';
import { formatOption, json } from './format.js';
import { packed } from './image-reference.js';
import { assertNotOfKubelet } from './kubelet-steps.js';
import { podman, podmanFailure } from './podman.js';
import { type Restorability, refusal, restorabilityOf, runtimeOf } from './restorability.js';
import { changes } from './restore-changes.js';
import { clearWay } from './restore-in-place.js';
import { type RestoreTarget, withRestoreTarget } from './restore-target.js';
import { rewriteTo, temporaryFile } from './rewrite-archive.js';
import { assertHostRoot } from './rootless.js';

/** `--import FILE` of podman, in all spellings: also after flags without a value in one word. */
const importFlag = /^(--import(=.*)?|-[akl]*i.*)$/;

interface RestoreOptions {
  readonly root: string;
  readonly gpuMap?: string;
  readonly gpus?: string;
  readonly ignoreMismatch?: string;
  readonly parent?: readonly string[];
  readonly contents?: readonly string[];
  readonly run: string;
  readonly quiet?: boolean;
  readonly format: 'text' | 'json';
}

export function restoreCommand(context: CommandContext): Command {
  return new Command('restore')
    .addArgument(
      new Argument(
        '<archive|container|image>',
        'archive, checkpoint image, or container that was checkpointed in place',
      ),
    )
    .addArgument(new Argument('[flags...]', 'flags for "podman container restore"'))
    .addOption(gpuMapOption())
    .addOption(gpusOption())
    .addOption(ignoreMismatchOption())
    .option(
      '--parent <archive>',
      'archive that holds the missing GPU contents; repeat the option for its own parent',
      appendParent,
    )
    .addOption(contentsOption())
    .option('--quiet', 'print no progress')
    .addOption(formatOption('text', 'json'))
    .option('--root <dir>', 'read the system below this folder', '/')
    .option('--run <dir>', 'folder in which sessions look for --contents', runFolder)
    .passThroughOptions()
    .action((path: string, flags: string[], options: RestoreOptions) =>
      restore(path, flags, options, context),
    );
}

async function restore(
  name: string,
  flags: readonly string[],
  options: RestoreOptions,
  context: CommandContext,
): Promise<void> {
  if (flags.some((flag) => importFlag.test(flag))) {
    throw new KfdError(
      'E_USAGE',
      `restore: --import cannot be used: ${name} is already what is to be restored`,
    );
  }
  await assertHostRoot('restore', context);
  await withRestoreTarget(name, context, (target) =>
    restoreTo(name, target, flags, options, context),
  );
}

/** `name`: what the user has called it. */
async function restoreTo(
  name: string,
  target: RestoreTarget,
  flags: readonly string[],
  {
    root,
    gpuMap,
    gpus,
    ignoreMismatch,
    parent = [],
    contents = [],
    run,
    quiet,
    format,
  }: RestoreOptions,
  context: CommandContext,
): Promise<void> {
  const { path } = target;
  const tmpfs = new Map<string, Buffer>();
  if (target.kind === 'container') {
    await clearWay(target, root, context);
    await recoverImage(path);
  }
  const hasParent = parent.length > 0;
  if (hasParent && contents.length > 0) {
    throw new KfdError('E_USAGE', 'restore: --parent and --contents exclude each other', {
      hint: 'unpack the pages files of the parent into a folder, and name it with a further --contents',
    });
  }
  const folders = await realFolders(contents);
  const layers = target.kind === 'archive' ? (target.layers ?? []) : [];
  const options = {
    root,
    gpuMap,
    gpus,
    ignoreMismatch,
    hasParent,
    folders,
    layers,
    also: tmpfsCollector(tmpfs),
  };
  const verdict = await restorabilityOf(path, context, options);
  assertNotOfKubelet(name, name === path ? path : undefined, verdict.contents);
  const refused = refusal(name, verdict.reasons);
  if (refused !== undefined) throw refused;
  assertPrevious(name, flags, verdict);
  for (const { difference, message } of verdict.placement?.ignored ?? []) {
    context.err(`ignored (${difference}): ${printable(message)}\n`);
  }
  for (const { message, hint } of verdict.placement?.risks ?? []) {
    context.err(`warning: ${printable(message)} (${hint})\n`);
  }
  const how = { parents: parent, flags, quiet: quiet === true, format };
  const work = () => restoreBy(target, verdict, tmpfs, how, context);
  const { manifest } = verdict.contents;
  const roots = manifest === undefined ? [] : rootsOf(manifest);
  const isAsked = folders.length > 0 && roots.length > 0;
  const printed = isAsked
    ? await withRequest(run, { operation: 'restore', roots, folders }, work)
    : await work();
  const given = { parents: parent, contents: folders };
  if (format === 'json') context.out(json(asJson(target, verdict, given, printed)));
}

/** Throws E_USAGE for an archive whose host memory is in part in that of a pre-checkpoint, which nobody has named. */
function assertPrevious(name: string, flags: readonly string[], { contents }: Restorability): void {
  const isNamed = flags.some((flag) => /^--import-previous(=.*)?$/.test(flag));
  if (contents.needsPrevious !== true || isNamed) return;
  throw new KfdError('E_USAGE', `${name}: was made with --with-previous`, {
    hint: 'add "--import-previous FILE", with the archive of its pre-checkpoint',
  });
}

interface How {
  readonly parents: readonly string[];
  readonly flags: readonly string[];
  readonly quiet: boolean;
  readonly format: 'text' | 'json';
}

/** Changes what must change, and runs podman. Returns what podman printed, where that is for the report. */
async function restoreBy(
  target: RestoreTarget,
  verdict: Restorability,
  tmpfs: ReadonlyMap<string, Buffer>,
  how: How,
  context: CommandContext,
): Promise<string> {
  const { parents, flags, quiet, format } = how;
  const { path } = target;
  const hasParent = parents.length > 0;
  if (target.kind === 'container') {
    const change = async (whole?: Flattened) => {
      const spec = await readBundleSpec(path);
      const documents = { config: '{}', spec, tmpfs };
      return changes(path, verdict, documents, context, whole?.manifest);
    };
    if (hasParent) await putParentsIn(path, parents, verdict, change, context);
    else if (verdict.needsRewriting) await replaceInPlace(path, await change());
    return restored([...flags, target.id], undefined, format, context);
  }
  if (target.kind === 'image') {
    if (!verdict.needsRewriting && !hasParent) {
      const globals = runtimeOf(verdict);
      return restored([...flags, target.image], undefined, format, context, globals);
    }
    return inWorkFolder('/var/tmp', async (folder) => {
      const archive = await packed(path, folder, context);
      return restoreBy({ kind: 'archive', path: archive }, verdict, tmpfs, how, context);
    });
  }
  const { layers = [] } = target;
  if (!verdict.needsRewriting && !hasParent && layers.length === 0) {
    return restored(['--import', path, ...flags], undefined, format, context);
  }
  const { config, spec } = verdict.contents.documents;
  const file = await temporaryFile([path, ...layers]);
  const { fd } = file;
  try {
    const write = async (whole?: Flattened) => {
      const replaced = verdict.needsRewriting
        ? await changes(path, verdict, { config, spec, tmpfs }, context, whole?.manifest)
        : [];
      const files = new Map<string, Contents>([...(whole?.files ?? []), ...replaced]);
      await rewriteTo(fd, path, files, context, { quiet, layers });
    };
    if (!hasParent) await write();
    else {
      await inWorkFolder(dirname(path), async (folder) =>
        write(await withParents(path, parents, folder, context)),
      );
    }
    // podman gets a descriptor, because a file without a name never stays behind.
    return await restored(['--import', '/proc/self/fd/3', ...flags], fd, format, context);
  } finally {
    await file.close();
  }
}

/** The contents of the parents, added to the archive. */
async function withParents(
  path: string,
  parents: readonly string[],
  folder: string,
  context: CommandContext,
): Promise<Flattened> {
  const chain = await chainOf(path, parents, folder, context);
  return flattened(chain, context.native.imageFlattener(), folder, context.signal);
}

/** The same in the image directory of a container: one whose checkpoint with a parent was interrupted. */
async function putParentsIn(
  bundle: string,
  parents: readonly string[],
  { needsRewriting }: Restorability,
  change: (whole: Flattened) => Promise<Replacements>,
  context: CommandContext,
): Promise<void> {
  await inWorkFolder(bundle, async (folder) => {
    const whole = await withParents(bundle, parents, folder, context);
    const changed = needsRewriting ? await change(whole) : new Map<string, Buffer>();
    // The spec first, as without a parent: its change can be repeated as long as the manifest is the old one.
    await replaceSpec(bundle, changed);
    await exchangeImage(bundle, new Map<string, Contents>([...whole.files, ...changed]));
  });
}

async function restored(
  args: readonly string[],
  fd: number | undefined,
  format: 'text' | 'json',
  context: CommandContext,
  globals: readonly string[] = [],
): Promise<string> {
  stage('cli', 'restoring');
  const result = await podman(['restore', ...args], fd, format, context, globals);
  stage('cli', 'restored');
  if (result.status !== 0) throw podmanFailure(result);
  return result.printed;
}

/** Within `schema_version` 1 members are only added. */
function asJson(
  target: RestoreTarget,
  { placement, needsRewriting }: Restorability,
  given: { readonly parents: readonly string[]; readonly contents: readonly string[] },
  printed: string,
) {
  return {
    schema_version: 1,
    target,
    rewritten: needsRewriting,
    ...given,
    moves: placement?.moves ?? [],
    gone: placement?.gone ?? [],
    ignored: placement?.ignored ?? [],
    warnings: placement?.risks ?? [],
    podman_output: printed,
  };
}
