/** The edits of `configure containerd`, planned before anything is written. */

import { blockProblems, defaultConfPath } from '../criu/default-conf.js';
import { hasBlock, withoutRuntimeBlock, withRuntimeBlock } from '../runtime/containerd-block.js';
import {
  containerdConfigPath,
  dropInPath,
  dropInPattern,
  importsDropIn,
  lacksOf,
  parseContainerdConfig,
  runtimeText,
  startsOurShim,
} from '../runtime/containerd-config.js';
import { copies, type FileChange, noCopies, type Plan, wholePackage } from './changes.js';
import { type Roots, read } from './roots.js';

export interface ContainerdOptions {
  /** Major release of containerd. */
  readonly major: number;
  /** Where a drop-in would have no effect, containerd's own file gets the lines. */
  readonly edit?: boolean;
  /** Pods may name the image that they are restored from. */
  readonly podAnnotations?: boolean;
}

/**
 * Throws as planConfigure, and E_CONFIG when containerd's own file is not TOML, or cannot have our lines.
 */
export async function planContainerd(
  roots: Roots,
  { major, edit = false, podAnnotations = false }: ContainerdOptions,
): Promise<Plan> {
  const parts = await wholePackage(roots);
  const ownText = await read(roots, containerdConfigPath);
  // Lines that we have added say nothing of the file.
  const rest = ownText === undefined ? undefined : withoutRuntimeBlock(ownText);
  const main = parseContainerdConfig(rest && asUtf8(rest));
  const before = await read(roots, dropInPath);
  const text = runtimeText(main, major, { prefix: roots.prefix, podAnnotations });
  const isRead = text.lines === undefined && importsDropIn(main);
  const files = [...(await copies(roots, parts))];
  if (isRead || !edit) {
    const own =
      ownText !== rest ? [{ path: containerdConfigPath, before: ownText, after: rest }] : [];
    const dropIn = { path: dropInPath, before, after: text.dropIn };
    return { changes: [...files, dropIn, ...own], notes: isRead ? [] : [noteFor(text.lines)] };
  }
  const lines = text.lines ?? text.dropIn ?? '';
  const theirs = main.runtimes.find((one) => startsOurShim(one, roots.prefix));
  const lacks = theirs === undefined ? [] : lacksOf(theirs, main, podAnnotations);
  return {
    changes: [
      ...files,
      ...(before === undefined ? [] : [{ path: dropInPath, before, after: undefined }]),
      // Lines of the administrator for our shim stay the only ones.
      ...(theirs === undefined ? [ownFile(ownText, rest, lines)] : []),
    ],
    notes: theirs === undefined || lacks.length === 0 ? [] : [noteOf(theirs.name, lacks, lines)],
  };
}

/** What containerd's own file becomes. */
function ownFile(before: string | undefined, rest: string | undefined, lines: string): FileChange {
  // A drop-in has a version, which only the beginning of a file may have.
  const added = rest === undefined || rest === '' ? lines : lines.replace(/^version = \d+\n\n/, '');
  const after = withRuntimeBlock(rest ?? '', added);
  return { path: containerdConfigPath, before, after };
}

function noteOf(name: string, lacks: readonly string[], lines: string): string {
  return (
    `the runtime "${name}" of ${containerdConfigPath} is yours, and lacks ${lacks.join(' and ')}. ` +
    `Add it there, as these lines have it:\n\n${lines}`
  );
}

const asUtf8 = (latin1: string) => new TextDecoder().decode(Buffer.from(latin1, 'latin1'));

function noteFor(lines: string | undefined): string {
  return lines === undefined
    ? `containerd does not read ${dropInPath} yet. ` +
        `Add this line to ${containerdConfigPath}, above its first table:\n\n` +
        `imports = ["${dropInPattern}"]\n`
    : `${containerdConfigPath} has settings for Kubernetes. A drop-in would replace them, ` +
        `so add these lines to the file, or use --edit:\n\n${lines}`;
}

/** Undoes it. The files that CRIU loads stay while the configuration of podman's CRIU names them. */
export async function planUndoContainerd(roots: Roots): Promise<Plan> {
  const before = await read(roots, dropInPath);
  const own = await read(roots, containerdConfigPath);
  const conf = (await read(roots, defaultConfPath)) ?? '';
  const stillNeeded = blockProblems(conf).length === 0;
  const rest = own !== undefined && hasBlock(own) ? withoutRuntimeBlock(own) : own;
  const changes = [
    { path: dropInPath, before, after: undefined },
    // Without other lines, the file is ours.
    ...(rest === own
      ? []
      : [{ path: containerdConfigPath, before: own, after: rest === '' ? undefined : rest }]),
    ...(stillNeeded ? [] : await noCopies(roots)),
  ];
  return { changes, notes: [] };
}
