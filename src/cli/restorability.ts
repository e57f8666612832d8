/** Would this checkpoint restore on this host, how, and if not, why. Nothing is started or changed. */

import { join } from 'node:path';
import { type CompleteContents, readComplete } from '../archive/completeness.js';
import { withoutParent } from '../archive/flatten.js';
import { compressionOf } from '../archive/tar.js';
import type { Visit } from '../archive/walk.js';
import { type Config, defaultConfigPath, loadConfig } from '../config.js';
import { KfdError } from '../errors.js';
import { type Placement, placeAsIs, placeOnHost } from '../gpu/compare.js';
import { type GpuMap, parseGpuMap } from '../gpu/gpu-map.js';
import { type Host, readHost } from '../gpu/host.js';
import type { Mismatch } from '../gpu/mismatch.js';
import type { CommandContext } from './context.js';

export interface Restorability extends CompleteContents {
  readonly host: Host;
  /** Where the GPUs would go; undefined without GPU state. */
  readonly placement: Placement | undefined;
  /** Every reason against; empty: it would restore. */
  readonly reasons: readonly Mismatch[];
  /** Whether `podman container restore` can take it, or only `kfd-checkpoint restore`. */
  readonly needsRewriting: boolean;
}

export interface RestorabilityOptions {
  /** Where the system is looked for. */
  readonly root: string;
  /** As on the command line; it wins over the configuration. */
  readonly gpuMap: string | undefined;
  /** What is in the parent will be put into it. */
  readonly hasParent?: boolean;
  /** Sees what is not read here. */
  readonly also?: Visit;
}

/** Throws as `readContents`, E_CONFIG for the configuration, E_USAGE for the map. */
export async function restorabilityOf(
  path: string,
  { native, signal, err }: CommandContext,
  options: RestorabilityOptions,
): Promise<Restorability> {
  const ordered = options.gpuMap === undefined ? undefined : parseGpuMap(options.gpuMap);
  const config: Config = await loadConfig(join(options.root, defaultConfigPath));
  const compression = await compressionOf(path).catch(() => undefined);
  if (compression === 'gzip' || compression === 'zstd') {
    err(`${path}: is one ${compression} stream, so all of it must be read\n`);
  }
  const complete = await readComplete(
    path,
    { zstdDecoder: native.zstdDecoder, signal },
    options.also,
  );
  const host = await readHost({ root: options.root, ...kfdVersion(native.kfdVersion) });
  const known = options.hasParent === true ? withParent(complete) : complete;
  return judge(known, host, ordered ?? config.gpu_map, ordered !== undefined);
}

function withParent({ contents, problems }: CompleteContents): CompleteContents {
  const { manifest } = contents;
  return { contents: { ...contents, manifest: manifest && withoutParent(manifest) }, problems };
}

function judge(
  { contents, problems }: CompleteContents,
  host: Host,
  map: GpuMap,
  isOrdered: boolean,
): Restorability {
  const { manifest, kind } = contents;
  if (manifest === undefined) {
    return {
      contents,
      problems,
      host,
      placement: undefined,
      reasons: problems,
      needsRewriting: false,
    };
  }
  // An image directory alone is without the spec, and nobody knows whose it is.
  const canRewrite = kind !== 'image';
  const placement = canRewrite ? placeOnHost(manifest, host, map) : placeAsIs(manifest, host, map);
  return {
    contents,
    problems,
    host,
    placement,
    reasons: [...problems, ...placement.mismatches],
    // The session would follow the configuration, not a map it was never told of.
    needsRewriting: canRewrite && (placement.moves.length > 0 || isOrdered),
  };
}

/** The reasons as one error, of the first one's code; undefined when there are none. */
export function refusal(path: string, reasons: readonly Mismatch[]): KfdError | undefined {
  const [first] = reasons;
  if (first === undefined) return undefined;
  const more = reasons.length === 1 ? '' : ` (and ${reasons.length - 1} more)`;
  return new KfdError(first.code, `${path}: would not restore here: ${first.message}${more}`, {
    hint: first.hint,
    details: { reasons },
  });
}

function kfdVersion(ask: () => string): { kfdVersion?: string } {
  try {
    return { kfdVersion: ask() };
  } catch {
    // No KFD here: the comparison says so, with the other reasons.
    return {};
  }
}
