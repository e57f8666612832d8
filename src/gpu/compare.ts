/**
 * Can this image be restored on this host? All reasons against are listed at once, before any task
 * exists. Pure: everything was read before.
 */

import { parentFeature } from '../manifest/names.js';
import type { Manifest, ManifestParent } from '../manifest/schema.js';
import { type DeviceMove, deviceMoves, movedMismatch } from './device-numbers.js';
import type { GpuMap } from './gpu-map.js';
import type { Host } from './host.js';
import type { Mismatch } from './mismatch.js';
import { type GpuPair, neededGpus, pairGpus } from './pair.js';

/** What a restore of an image on a host would be. */
export interface Placement {
  readonly pairs: readonly GpuPair[];
  /** Every reason why it cannot be, whatever is done to the archive; empty when it can. */
  readonly mismatches: readonly Mismatch[];
  /** What in the archive does not fit yet: `kfd-checkpoint restore` makes it fit. */
  readonly moves: readonly DeviceMove[];
}

/** Where each recorded GPU could go, if the archive may be rewritten for it. */
export function placeOnHost(manifest: Manifest, host: Host, map: GpuMap = {}): Placement {
  const general = [...featureMismatches(manifest), ...kernelMismatches(manifest, host)];
  if (host.kfdDevice === undefined) {
    return { pairs: [], mismatches: [...general, noKfd()], moves: [] };
  }
  const { pairs, mismatches } = pairGpus(manifest, host, map);
  return {
    pairs,
    mismatches: [...general, ...tooFew(manifest, host), ...mismatches],
    moves: deviceMoves(manifest, host, pairs),
  };
}

/**
 * As `placeOnHost` for an image that is being restored as it is: a move is a reason against. An
 * archive that was rewritten says where its GPUs go; that was decided here, and holds.
 */
export function placeAsIs(manifest: Manifest, host: Host, map: GpuMap = {}): Placement {
  const { assigned } = manifest.devices;
  const decided = assigned === undefined ? map : decidedMap(manifest, assigned);
  const placement = placeOnHost(manifest, host, decided);
  const moved = placement.moves.map(movedMismatch);
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

function featureMismatches({ features, parent }: Manifest): Mismatch[] {
  return features.required.map((feature): Mismatch => {
    if (feature === parentFeature && parent !== null) return parentMissing(parent);
    return {
      code: 'E_UNSUPPORTED_STATE',
      message: `feature ${feature}: the image requires it and this release does not know it`,
      hint: 'restore with the release of kfd-checkpoint that wrote the image, or a later one',
    };
  });
}

/** A restore reads one image. What another has must be put into it first. */
function parentMissing({ archive }: ManifestParent): Mismatch {
  return {
    code: 'E_IMAGE_MISSING',
    message: `parent: contents that had not changed are in ${archive}, not in this image`,
    hint: 'run "kfd-checkpoint restore --parent PARENT ARCHIVE", or put both together with "kfd-checkpoint flatten"',
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
