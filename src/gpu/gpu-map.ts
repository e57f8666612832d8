/** The operator's choice of GPUs. It overrides the automatic one. */

import { KfdError } from '../errors.js';
import type { ManifestGpu } from '../manifest/schema.js';
import type { HostGpu } from './host.js';
import type { Mismatch } from './mismatch.js';

/**
 * Recorded GPU to GPU of this host. Both sides name a GPU by its render node ("renderD128"), PCI
 * address ("0000:03:00.0") or KFD id ("51966"), the left one as it was on the source host.
 */
export type GpuMap = Readonly<Record<string, string>>;

/** The forms of a GPU's name. */
export const gpuSelector =
  /^(renderD\d{1,7}|[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]|\d{1,10})$/;

/** Whether a word names a GPU in one of the forms of `gpuSelector`. */
export const isSelector = (word: string): boolean => gpuSelector.test(word);

/** "A=B,C=D" of the command line. `isName`: whether a word names a GPU; a name may have a "=". Throws E_USAGE. */
export function parseGpuMap(text: string, isName = isSelector): GpuMap {
  const map = new Map<string, string>();
  for (const pair of text.split(',')) {
    const [from, to] = pairIn(pair, isName) ?? [];
    if (from === undefined || to === undefined || map.has(from)) {
      throw new KfdError('E_USAGE', `gpu map: "${text}" is not FROM=TO[,FROM=TO...]`, {
        hint: 'name each GPU once, by renderD128, 0000:03:00.0 or its KFD id: see "kfd-checkpoint inspect" and "check"',
      });
    }
    map.set(from, to);
  }
  return Object.fromEntries(map);
}

function pairIn(pair: string, isName: (word: string) => boolean): [string, string] | undefined {
  for (let at = pair.indexOf('='); at !== -1; at = pair.indexOf('=', at + 1)) {
    const [from, to] = [pair.slice(0, at), pair.slice(at + 1)];
    if (isName(from) && isName(to)) return [from, to];
  }
  return undefined;
}

/** The entries of a map that concern one image on one host. */
export interface Overrides {
  /** Ordinal of a recorded GPU to the GPU that must replace it. */
  readonly target: ReadonlyMap<number, HostGpu>;
  readonly mismatches: readonly Mismatch[];
}

/** Entries for GPUs that the image does not need are ignored, because the map belongs to the host. */
export function overridesOf(
  map: GpuMap,
  needed: readonly ManifestGpu[],
  present: readonly HostGpu[],
): Overrides {
  const target = new Map<number, HostGpu>();
  const mismatches: Mismatch[] = [];
  const refuse = (message: string, gpu: number) =>
    mismatches.push({
      code: 'E_CONFIG',
      message: `gpu map: ${message}`,
      hint: 'mend gpu_map in config.json, or --gpu-map: see "kfd-checkpoint check" for the GPUs of this host',
      gpu,
    });
  for (const [from, to] of Object.entries(map)) {
    for (const { ordinal } of needed.filter((gpu) => isNamed(gpu, from))) {
      const chosen = present.find(({ record }) => isNamed(record, to));
      if (chosen === undefined) refuse(`this host has no ${to}, the override of ${from}`, ordinal);
      else if (target.has(ordinal)) refuse(`two overrides name ${from}`, ordinal);
      else if ([...target.values()].includes(chosen)) refuse(`${to} is taken twice`, ordinal);
      else target.set(ordinal, chosen);
    }
  }
  return { target, mismatches };
}

/** Whether the selector is one of the GPU's names. */
export function isNamed(gpu: ManifestGpu, selector: string): boolean {
  return [`renderD${gpu.render_minor}`, gpu.location, `${gpu.gpu_id}`].includes(selector);
}
