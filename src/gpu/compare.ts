/**
 * Can this image be restored on this host? All reasons against are listed at once, before any task
 * exists. Pure: everything was read before.
 */

import type { ErrorCode } from '../errors.js';
import type { Manifest, ManifestGpu } from '../manifest/schema.js';
import type { Host, HostGpu } from './host.js';
import { gfxName } from './properties.js';

/** One reason why a restore here would fail. */
export interface Mismatch {
  readonly code: ErrorCode;
  /** "<subject>: <reason>". */
  readonly message: string;
  /** What to do next. */
  readonly hint: string;
  /** Ordinal of the recorded GPU, when it is about one. */
  readonly gpu?: number;
}

/** A recorded GPU and the one of this host that takes its place. */
export interface GpuPair {
  readonly recorded: ManifestGpu;
  readonly present: HostGpu;
}

/** Features of the image a restore knows; a required one beyond them is refused. */
const builtFeatures: ReadonlySet<string> = new Set();

/**
 * Which GPU here is which recorded one: by render node, since the restored container has the
 * source's nodes. GPUs no process could see, and those without a counterpart, are left out.
 */
export function pairGpus(manifest: Manifest, host: Host): GpuPair[] {
  return neededGpus(manifest).flatMap((recorded) => {
    const present = host.gpus.find((gpu) => gpu.record.render_minor === recorded.render_minor);
    return present === undefined ? [] : [{ recorded, present }];
  });
}

/** The recorded GPUs that any process could see; the others of the source host do not matter. */
export function neededGpus(manifest: Manifest): ManifestGpu[] {
  const seen = new Set(manifest.processes.flatMap((process) => process.gpus));
  return manifest.gpus.filter((gpu) => seen.has(gpu.ordinal));
}

/** Every reason why `manifest` cannot be restored on `host`; empty when it can. */
export function compareHost(manifest: Manifest, host: Host): Mismatch[] {
  return [
    ...featureMismatches(manifest),
    ...kernelMismatches(manifest, host),
    ...(host.kfdDevice === undefined
      ? [noKfd()]
      : [...deviceMismatches(manifest, host), ...gpuMismatches(manifest, host)]),
  ];
}

function featureMismatches({ features }: Manifest): Mismatch[] {
  return features.required
    .filter((feature) => !builtFeatures.has(feature))
    .map((feature) => ({
      code: 'E_UNSUPPORTED_STATE',
      message: `feature ${feature}: the image requires it and this release does not know it`,
      hint: 'restore with the release of kfd-checkpoint that wrote the image, or a later one',
    }));
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

function deviceMismatches({ devices }: Manifest, host: Host): Mismatch[] {
  const kfd = host.kfdDevice;
  if (kfd === undefined) return [];
  if (kfd.major === devices.kfd_major && kfd.minor === devices.kfd_minor) return [];
  return [
    {
      code: 'E_DEVICE_MOVED',
      message: `/dev/kfd: was ${devices.kfd_major}:${devices.kfd_minor}, is ${kfd.major}:${kfd.minor} here; the device rules in the archive name the old number`,
      hint: 'load the modules in the order of the source host (the major of kfd is given out at load)',
    },
  ];
}

function gpuMismatches(manifest: Manifest, host: Host): Mismatch[] {
  const mismatches: Mismatch[] = [];
  const needed = neededGpus(manifest);
  if (host.gpus.length < needed.length) {
    mismatches.push({
      code: 'E_NO_GPU',
      message: `gpus: ${needed.length} are needed, ${host.gpus.length} on this host`,
      hint: `restore on a host with at least ${needed.length} GPUs`,
    });
  }
  const pairs = new Map(pairGpus(manifest, host).map((pair) => [pair.recorded.ordinal, pair]));
  for (const recorded of needed) {
    const present = pairs.get(recorded.ordinal)?.present;
    const found =
      present === undefined
        ? nodeMismatch(recorded, host)
        : [
            ...modelMismatches(recorded, present.record),
            ...majorMismatch(manifest, recorded, present),
            ...vramMismatch(manifest, recorded, present),
          ];
    mismatches.push(...found.map((mismatch) => ({ ...mismatch, gpu: recorded.ordinal })));
  }
  return mismatches;
}

/** No GPU has the recorded render node: a fitting one elsewhere has moved, else there is none. */
function nodeMismatch(recorded: ManifestGpu, host: Host): Mismatch[] {
  const fitting = host.gpus.filter((gpu) => modelMismatches(recorded, gpu.record).length === 0);
  if (fitting.length > 0) {
    const nodes = fitting.map((gpu) => `renderD${gpu.record.render_minor}`).join(', ');
    return [
      {
        code: 'E_DEVICE_MOVED',
        message: `${name(recorded)}: not here; a GPU of its kind is at ${nodes}`,
        hint: 'moving a container to another render node is not built; restore where the GPU has its old number',
      },
    ];
  }
  return [
    {
      code: 'E_NO_GPU',
      message: `${name(recorded)}: no GPU of its kind (${gfxName(recorded.gfx_target_version)}) on this host`,
      hint: `restore on a host with a ${gfxName(recorded.gfx_target_version)} at renderD${recorded.render_minor}`,
    },
  ];
}

function modelMismatches(recorded: ManifestGpu, present: ManifestGpu): Mismatch[] {
  const mismatches: Mismatch[] = [];
  const differ = (what: string, was: string | number, is: string | number, hint: string) => {
    if (was === is) return;
    mismatches.push({
      code: 'E_GPU_MISMATCH',
      message: `${name(recorded)}: ${what} was ${was}, is ${is} here`,
      hint,
    });
  };
  const gfx = gfxName(recorded.gfx_target_version);
  differ(
    'gfx version',
    gfx,
    gfxName(present.gfx_target_version),
    `restore on a ${gfx}: code and queue state are of that version`,
  );
  differ(
    'number of compute dies (num_xcc)',
    recorded.num_xcc,
    present.num_xcc,
    'set the compute partition mode of the source host (amd-smi set --compute-partition)',
  );
  differ(
    'simd_count',
    recorded.simd_count,
    present.simd_count,
    'restore on the same GPU model: saved waves are laid out for its compute units',
  );
  return mismatches;
}

function majorMismatch({ devices }: Manifest, recorded: ManifestGpu, present: HostGpu): Mismatch[] {
  const was = devices.render.find((node) => node.minor === recorded.render_minor);
  const is = present.renderDevice;
  if (was === undefined || is === undefined) return [];
  if (was.major === is.major && was.minor === is.minor) return [];
  return [
    {
      code: 'E_DEVICE_MOVED',
      message: `${name(recorded)}: was ${was.major}:${was.minor}, is ${is.major}:${is.minor} here; the device rules in the archive name the old number`,
      hint: 'restore on a host whose render nodes have the numbers of the source host',
    },
  ];
}

function vramMismatch(manifest: Manifest, recorded: ManifestGpu, present: HostGpu): Mismatch[] {
  const needed = vramNeeded(manifest, recorded.ordinal);
  const free = present.vramFreeBytes ?? present.record.vram_bytes;
  if (needed <= free) return [];
  return [
    {
      code: 'E_VRAM',
      message: `${name(recorded)}: ${needed} bytes of VRAM are needed, ${free} are free`,
      hint: 'stop other GPU work on this host, or restore on a GPU with more memory',
    },
  ];
}

/** Bytes of VRAM the image will allocate on one recorded GPU. */
export function vramNeeded(manifest: Manifest, gpu: number): number {
  return manifest.buffers
    .filter((buffer) => buffer.kind === 'vram' && buffer.gpu === gpu)
    .reduce((sum, buffer) => sum + buffer.size, 0);
}

function name(gpu: ManifestGpu): string {
  return `gpu ${gpu.ordinal} (renderD${gpu.render_minor})`;
}
