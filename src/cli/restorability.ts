/** Decides whether and how this host can restore a checkpoint. Nothing is started or changed. */

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
import { placeWhenFree } from '../gpu/wait-vram.js';
import type { CommandContext } from './context.js';

export interface Restorability extends CompleteContents {
  readonly host: Host;
  /** The GPUs of this host that would be used. Undefined without GPU state. */
  readonly placement: Placement | undefined;
  /** All reasons against a restore. Empty: the restore would succeed. */
  readonly reasons: readonly Mismatch[];
  /** Whether only `kfd-checkpoint restore` can restore it, and `podman container restore` cannot. */
  readonly needsRewriting: boolean;
}

export interface RestorabilityOptions {
  /** Root folder of the system. */
  readonly root: string;
  /** Value of the option, which overrides the configuration. */
  readonly gpuMap: string | undefined;
  /** The contents of the parent will be added to the archive. */
  readonly hasParent?: boolean;
  /** Gets all files that are not read here. */
  readonly also?: Visit;
}

/** Throws as `readContents`, E_CONFIG for the configuration, E_USAGE for the map. */
export async function restorabilityOf(
  path: string,
  { native, signal, err }: CommandContext,
  options: RestorabilityOptions,
): Promise<Restorability> {
  const override = options.gpuMap === undefined ? undefined : parseGpuMap(options.gpuMap);
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
  const look = () =>
    readHost({
      root: options.root,
      kfdVersion: ifKnown(native.kfdVersion),
      xsaveBytes: ifKnown(native.xsaveBytes),
    });
  const known = options.hasParent === true ? withParent(complete) : complete;
  return judge(known, look, override ?? config.gpu_map, override !== undefined);
}

function withParent({ contents, problems }: CompleteContents): CompleteContents {
  const { manifest } = contents;
  return { contents: { ...contents, manifest: manifest && withoutParent(manifest) }, problems };
}

async function judge(
  { contents, problems }: CompleteContents,
  look: () => Promise<Host>,
  map: GpuMap,
  isOverridden: boolean,
): Promise<Restorability> {
  const { manifest, kind } = contents;
  if (manifest === undefined) {
    return {
      contents,
      problems,
      host: await look(),
      placement: undefined,
      reasons: problems,
      needsRewriting: false,
    };
  }
  // A single image directory has no spec, and its container is not known.
  const canRewrite = kind !== 'image';
  const place = canRewrite ? placeOnHost : placeAsIs;
  const { host, placement } = await placeWhenFree(look, (now) => place(manifest, now, map));
  return {
    contents,
    problems,
    host,
    placement,
    reasons: [...problems, ...placement.mismatches],
    // The session would use the configuration, because it does not know the map of this command.
    needsRewriting: canRewrite && (placement.moves.length > 0 || isOverridden),
  };
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

function ifKnown<T>(ask: () => T): T | undefined {
  try {
    return ask();
  } catch {
    // The comparison reports a missing KFD, with the other reasons.
    return undefined;
  }
}
