/** Whether an image can be restored on a host. All reasons against it are listed, before any task exists. Pure. */

import { pagesFilesOf } from '../manifest/elsewhere.js';
import { detachedFeature, parentFeature, storesFeature } from '../manifest/names.js';
import type { Manifest, ManifestParent } from '../manifest/schema.js';
import { type DeviceMove, deviceMoves, movedMismatch } from './device-numbers.js';
import { driverMismatches } from './driver.js';
import { firmwareMisfits } from './firmware.js';
import { gttMisfits } from './fit.js';
import { type GoneCard, goneCards, goneMismatch } from './gone-cards.js';
import type { GpuMap } from './gpu-map.js';
import type { Host } from './host.js';
import { cpuMismatches } from './host-cpu.js';
import { type Difference, judged } from './ignorable.js';
import type { Mismatch } from './mismatch.js';
import { type GpuPair, neededGpus, type Offered, pairGpus } from './pair.js';
import { sdmaRisks } from './sdma-risks.js';
import type { SdmaWants } from './sdma-wants.js';

/** The operator's choices, as in the configuration. */
export interface Choices {
  readonly gpu_map?: GpuMap;
  readonly ignore_mismatch?: readonly Difference[];
  /** The GPUs to choose from; undefined: all of the host. */
  readonly only?: Offered;
}

/** The result of the comparison of an image with a host. */
export interface Placement {
  readonly pairs: readonly GpuPair[];
  /** Every reason against a restore that no change of the archive removes; empty when a restore is possible. */
  readonly mismatches: readonly Mismatch[];
  /** Differences that the operator, or the archive itself, ignores. */
  readonly ignored: readonly Mismatch[];
  /** What may stop a restore nevertheless. */
  readonly risks: readonly Mismatch[];
  /** Parts of the archive that `kfd-checkpoint restore` must rewrite. */
  readonly moves: readonly DeviceMove[];
  /** Card nodes that the container loses. */
  readonly gone: readonly GoneCard[];
}

/**
 * The GPU for each recorded GPU, if the archive may be rewritten. `wants`: places that the image needs for SDMA queues;
 * undefined: not known.
 */
export function placeOnHost(
  manifest: Manifest,
  host: Host,
  choices: Choices = {},
  wants?: SdmaWants,
): Placement {
  return place(manifest, host, choices, 'movable', wants);
}

function place(
  manifest: Manifest,
  host: Host,
  choices: Choices,
  archive: 'movable' | 'asIs',
  wants: SdmaWants | undefined,
): Placement {
  const ignored = new Set([...(choices.ignore_mismatch ?? []), ...(manifest.ignored ?? [])]);
  const general = [
    ...featureMismatches(manifest),
    ...kernelMismatches(manifest, host),
    ...driverMismatches(manifest.host.driver, host.driver),
    ...cpuMismatches(manifest.host.cpu, host.cpu),
  ];
  if (host.kfdDevice === undefined) {
    const none = { pairs: [], risks: [], moves: [], gone: [] };
    return { ...none, ...judged([...general, noKfd()], ignored) };
  }
  const { pairs, mismatches } = pairGpus(manifest, host, choices.gpu_map, {
    ignored,
    archive,
    wants,
    only: choices.only,
  });
  // Pairs have older firmware only when that is ignored.
  const older = pairs.flatMap(({ recorded, present }) => firmwareMisfits(recorded, present.record));
  const missing = [...tooFew(manifest, host), ...gttMisfits(manifest, host)];
  return {
    pairs,
    ...judged([...general, ...missing, ...mismatches, ...older], ignored),
    risks: sdmaRisks(manifest, pairs, wants),
    moves: deviceMoves(manifest, host, pairs),
    gone: goneCards(manifest, host, pairs),
  };
}

/**
 * `placeOnHost` for an archive that is restored unchanged: a move is a reason against it. The GPU pairs of a rewritten
 * archive are used again.
 */
export function placeAsIs(
  manifest: Manifest,
  host: Host,
  choices: Choices = {},
  wants?: SdmaWants,
): Placement {
  const { assigned } = manifest.devices;
  const decided = assigned === undefined ? {} : { gpu_map: decidedMap(manifest, assigned) };
  const placement = place(manifest, host, { ...choices, ...decided }, 'asIs', wants);
  const moved = [...placement.moves.map(movedMismatch), ...placement.gone.map(goneMismatch)];
  return { ...placement, mismatches: [...placement.mismatches, ...moved] };
}

type Assigned = NonNullable<Manifest['devices']['assigned']>;

function decidedMap({ gpus }: Manifest, assigned: Assigned): GpuMap {
  return Object.fromEntries(
    assigned.map(({ gpu, render_minor }) => [
      `renderD${gpus[gpu]?.render_minor}`,
      `renderD${render_minor}`,
    ]),
  );
}

function featureMismatches(manifest: Manifest): Mismatch[] {
  const { features, parent } = manifest;
  const unmet = features.required.filter((feature) => feature !== storesFeature);
  return unmet.map((feature): Mismatch => {
    if (feature === parentFeature && parent !== null) return parentMissing(parent);
    if (feature === detachedFeature) return contentsMissing(manifest);
    return {
      code: 'E_UNSUPPORTED_STATE',
      message: `feature ${feature}: the image requires it and this release does not know it`,
      hint: 'restore with the release of kfd-checkpoint that wrote the image, or a later one',
    };
  });
}

/** A restore reads one image. Contents of a parent must be added first. */
function parentMissing({ archive }: ManifestParent): Mismatch {
  return {
    code: 'E_IMAGE_MISSING',
    message: `parent: contents that had not changed are in ${archive}, not in this image`,
    hint: 'run "kfd-checkpoint restore --parent PARENT ARCHIVE|CONTAINER", or --contents DIR for a parent in a folder',
  };
}

/** A restore finds pages files in the image, unless somebody names their folder. */
export function contentsMissing(manifest: Manifest): Mismatch {
  const files = pagesFilesOf(manifest);
  const bytes = files.reduce((sum, { size }) => sum + size, 0);
  const [first] = files;
  const more = files.length > 1 ? ` and ${files.length - 1} more` : '';
  return {
    code: 'E_IMAGE_MISSING',
    message: `contents: ${first?.name}${more}, ${bytes} bytes, are in a folder of their own, not in this image`,
    hint: 'name that folder: "kfd-checkpoint restore --contents DIR ARCHIVE|CONTAINER"',
  };
}

function noKfd(): Mismatch {
  return {
    code: 'E_NO_GPU',
    message: '/dev/kfd: not on this host',
    hint: 'load the amdgpu kernel driver, or restore on a host with an AMD GPU',
  };
}

function kernelMismatches({ host: source }: Manifest, host: Host): Mismatch[] {
  const mismatches: Mismatch[] = [];
  const bound = 'the opaque KFD state is bound to it';
  if (source.machine !== host.machine) {
    mismatches.push({
      code: 'E_KERNEL_MISMATCH',
      message: `machine: recorded on ${source.machine}, this host is ${host.machine}`,
      hint: 'restore on a host of the same architecture',
    });
  }
  if (source.kernel_release !== host.kernelRelease) {
    mismatches.push({
      code: 'E_KERNEL_MISMATCH',
      message: `kernel release: recorded on ${source.kernel_release}, this host runs ${host.kernelRelease}; ${bound}`,
      hint: `boot kernel ${source.kernel_release}, or restore on a host that runs it`,
    });
  }
  if (host.kfdVersion !== undefined && source.kfd_version !== host.kfdVersion) {
    mismatches.push({
      code: 'E_KERNEL_MISMATCH',
      message: `kfd version: recorded on ${source.kfd_version}, this host has ${host.kfdVersion}; ${bound}`,
      hint: 'use the amdgpu driver of the source host',
    });
  }
  return mismatches;
}

function tooFew(manifest: Manifest, host: Host): Mismatch[] {
  const needed = neededGpus(manifest).length;
  if (host.gpus.length >= needed) return [];
  return [
    {
      code: 'E_NO_GPU',
      message: `gpus: ${needed} are needed, ${host.gpus.length} on this host`,
      hint: `restore on a host with at least ${needed} GPUs`,
    },
  ];
}
