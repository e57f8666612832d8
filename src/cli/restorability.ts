/** Decides whether and how this host can restore a checkpoint. Nothing is started or changed. */

import { join } from 'node:path';
import { cdiNames, hasOtherNames } from '../archive/cdi-names.js';
import { type CompleteContents, readComplete } from '../archive/completeness.js';
import { withoutParent } from '../archive/flatten.js';
import { compressionOf } from '../archive/tar.js';
import type { ContainerdDocuments, Visit } from '../archive/walk.js';
import { type Config, defaultConfigPath, loadConfig } from '../config.js';
import { KfdError } from '../errors.js';
import { type Choices, type Placement, placeAsIs, placeOnHost } from '../gpu/compare.js';
import { type Host, readHost } from '../gpu/host.js';
import { type Difference, kindsOf, parseDifferences } from '../gpu/ignorable.js';
import type { Mismatch } from '../gpu/mismatch.js';
import { placeWhenFree } from '../gpu/wait-vram.js';
import { foldersFor, supplied } from '../manifest/elsewhere.js';
import { type Cdi, readCdi } from '../runtime/cdi.js';
import { maskReasons } from '../runtime/crun-masks.js';
import { versionOf } from '../runtime/versions.js';
import { ancestorProblems } from './contents-folders.js';
import type { CommandContext } from './context.js';
import { kubeletEngine, restoringEngine } from './kubelet-steps.js';
import { choicesOf, type NamedGpus, namedGpus } from './named-gpus.js';

export interface Restorability extends CompleteContents {
  readonly host: Host;
  /** The GPUs of this host that would be used. Undefined without GPU state. */
  readonly placement: Placement | undefined;
  /** All reasons against a restore. Empty: the restore would succeed. */
  readonly reasons: readonly Mismatch[];
  /** Whether only `kfd-checkpoint restore` can restore it, and `podman container restore` cannot. */
  readonly needsRewriting: boolean;
  /** The CDI specifications of this host. */
  readonly cdi: Cdi;
  /** Differences that only the option ignores, neither the configuration nor the archive. */
  readonly ignoredByOption: readonly Difference[];
}

export interface RestorabilityOptions {
  /** Root folder of the system. */
  readonly root: string;
  /** Value of the option, which overrides the configuration. */
  readonly gpuMap: string | undefined;
  /** Value of the option: the GPUs of this host to choose from. */
  readonly gpus?: string | undefined;
  /** Value of the option, which adds to the configuration. */
  readonly ignoreMismatch: string | undefined;
  /** The contents of the parent will be added to the archive. */
  readonly hasParent?: boolean;
  /** Real paths of the folders of its contents and of those of its ancestors. */
  readonly folders?: readonly string[];
  /** The caller changes an image directory by itself, where its container needs other numbers here. */
  readonly mayChange?: boolean;
  /** Further layers of its image. */
  readonly layers?: readonly string[];
  /** Of an image of containerd. */
  readonly containerd?: ContainerdDocuments | undefined;
  /** Gets all files that are not read here. */
  readonly also?: Visit;
}

/** Throws as `readContents`, E_CONFIG for the configuration, E_USAGE for the options. */
export async function restorabilityOf(
  path: string,
  { native, signal, err, run }: Pick<CommandContext, 'native' | 'signal' | 'err' | 'run'>,
  options: RestorabilityOptions,
): Promise<Restorability> {
  const { gpuMap, gpus, ignoreMismatch, folders = [], layers = [], containerd } = options;
  const asked: Asked = {
    named: namedGpus({ gpuMap, gpus }),
    ignored: ignoreMismatch === undefined ? [] : parseDifferences(ignoreMismatch),
    cdi: await readCdi(options.root),
    mayChange: options.mayChange === true,
  };
  const config: Config = await loadConfig(join(options.root, defaultConfigPath));
  const compression = await compressionOf(path).catch(() => undefined);
  if (compression === 'gzip' || compression === 'zstd') {
    err(`${path}: is one ${compression} stream, so all of it must be read\n`);
  }
  const complete = await readComplete(
    path,
    { zstdDecoder: native.zstdDecoder, signal, contents: folders, layers, containerd },
    options.also,
  );
  const look = () =>
    readHost({
      root: options.root,
      kfdVersion: ifKnown(native.kfdVersion),
      xsaveBytes: ifKnown(native.xsaveBytes),
      sdmaSlots: true,
    });
  const { manifest } = complete.contents;
  const ancestors = manifest ? await ancestorProblems(manifest, folders, native.listPages) : [];
  const masks = complete.contents.hasCrunMasks
    ? maskReasons((await versionOf(run, 'crun'))?.text, 'here')
    : [];
  const problems = [...complete.problems, ...ancestors, ...masks];
  const known = options.hasParent === true ? withParent(complete) : complete;
  return judge({ ...known, problems }, folders, look, asked, config);
}

/** What the command line, or the caller, asks for. */
interface Asked {
  readonly mayChange: boolean;
  readonly named: NamedGpus;
  readonly ignored: readonly Difference[];
  readonly cdi: Cdi;
}

function withParent({ contents, ...more }: CompleteContents): CompleteContents {
  const { manifest } = contents;
  return { contents: { ...contents, manifest: manifest && withoutParent(manifest) }, ...more };
}

async function judge(
  { contents, problems, wants }: CompleteContents,
  folders: readonly string[],
  look: () => Promise<Host>,
  { named, ignored, cdi, mayChange }: Asked,
  config: Config,
): Promise<Restorability> {
  const { manifest, kind } = contents;
  const reasons = problems;
  if (manifest === undefined) {
    const none = { placement: undefined, needsRewriting: false, ignoredByOption: [], cdi };
    return { contents, problems, wants, host: await look(), reasons, ...none };
  }
  // A single image directory has no spec, and its container is not known. So it cannot be rewritten. containerd and
  // CRI-O restore images as they are.
  const canRewrite = mayChange || (kind !== 'image' && restoringEngine(contents) === undefined);
  // What the option ignores, the archive has to say.
  const ignore = canRewrite ? ignored : [];
  const choices = {
    gpu_map: config.gpu_map,
    ignore_mismatch: [...config.ignore_mismatch, ...ignore],
  };
  const annotations = contents.container?.annotations ?? {};
  const choicesOn = (now: Host): Choices => ({
    ...choices,
    ...choicesOf(named, { cdi, host: now, manifest, annotations }),
  });
  // The shim gives a pod's container the numbers of the GPUs that the pod has.
  const place = canRewrite || kubeletEngine(contents) === 'containerd' ? placeOnHost : placeAsIs;
  const here = supplied(manifest, foldersFor(manifest, folders));
  const { host, placement } = await placeWhenFree(look, (now) =>
    place(here, now, choicesOn(now), wants),
  );
  const known: readonly Difference[] = [...config.ignore_mismatch, ...(manifest.ignored ?? [])];
  const ignoredByOption = kindsOf(placement.ignored).filter((one) => !known.includes(one));
  // The session would use the configuration, because it does not know the options of this command.
  const isOverridden =
    named.map !== undefined || named.only !== undefined || ignoredByOption.length > 0;
  const otherNames = hasOtherNames(cdiNames(placement.pairs, cdi, host), contents.documents);
  const mustChange = placement.moves.length > 0 || placement.gone.length > 0 || otherNames;
  return {
    contents,
    problems,
    wants,
    host,
    placement,
    reasons: [...reasons, ...placement.mismatches],
    needsRewriting: canRewrite && (mustChange || isOverridden),
    ignoredByOption,
    cdi,
  };
}

/**
 * For podman, which restores an image only if its default runtime is the one of the container. A name alone: what an
 * archive says must not choose a program.
 */
export function runtimeOf({ contents }: Restorability): readonly string[] {
  const name = contents.container?.runtime;
  return name !== undefined && /^\w[\w-]*$/.test(name) ? ['--runtime', name] : [];
}

/** One error for all reasons, with the code of the first one. Undefined without a reason. */
export function refusal(path: string, reasons: readonly Mismatch[]): KfdError | undefined {
  const [first] = reasons;
  if (first === undefined) return undefined;
  const more = reasons.length === 1 ? '' : ` (and ${reasons.length - 1} more)`;
  return new KfdError(first.code, `${path}: would not restore here: ${first.message}${more}`, {
    hint: first.hint,
    details: { reasons },
  });
}

/** What `ask` says; undefined where it cannot be asked. */
export function ifKnown<T>(ask: () => T): T | undefined {
  try {
    return ask();
  } catch {
    // The comparison reports a missing KFD, with the other reasons.
    return undefined;
  }
}
