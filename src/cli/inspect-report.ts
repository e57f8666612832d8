/** What `inspect` knows, as the JSON it prints. Keys of the container engine's part are checkpointctl's. */

import { boKinds, type RenderStateFacts } from '../addon/images.js';
import type { CheckpointContents } from '../archive/contents.js';
import { lostQueues, nearestRead } from '../gpu/kernel-rules.js';
import type { KfdObjects } from '../gpu/kfd-objects.js';
import { gfxName } from '../gpu/properties.js';
import { groupedBy } from '../manifest/buffers.js';
import { pagesPattern } from '../manifest/names.js';
import {
  isRenderFile,
  type Manifest,
  type ManifestExtFile,
  type ManifestTransfer,
} from '../manifest/schema.js';
import { inspectWarnings } from './inspect-warnings.js';

/** Contents of the state files by name. A file that cannot be read is missing. */
export interface ReadStates {
  readonly objects: ReadonlyMap<string, KfdObjects>;
  readonly held: ReadonlyMap<string, RenderStateFacts>;
}

/**
 * The report for JSON. Within `schema_version` 1 members are only added. Sizes are in bytes and times
 * in RFC 3339. Data of a state file that cannot be read is missing.
 */
export function inspectReport(contents: CheckpointContents, states: ReadStates) {
  const { container, manifest, sizes } = contents;
  return {
    schema_version: 1,
    container_name: container?.name,
    image: container?.image,
    id: container?.id,
    runtime: container?.runtime,
    created: container?.created,
    checkpointed: container?.checkpointed,
    engine: container?.engine,
    source: {
      path: contents.path,
      kind: contents.kind,
      compression: contents.compression,
    },
    checkpoint_size: {
      total_size: sizes.total,
      memory_pages_size: sizes.memoryPages,
      amd_gpu_memory_pages_size: sizes.gpuPages,
      root_fs_diff_size: sizes.rootfsDiff,
    },
    gpu_state: gpuState(contents),
    ...(manifest && manifestPart(manifest, states)),
  };
}

export type InspectReport = ReturnType<typeof inspectReport>;

function gpuState({ manifest, imageFiles }: CheckpointContents): 'none' | 'unsealed' | 'sealed' {
  if (manifest !== undefined) return 'sealed';
  return imageFiles.size === 0 ? 'none' : 'unsealed';
}

function manifestPart(manifest: Manifest, { objects, held }: ReadStates) {
  const renderFiles = groupedBy(manifest.ext_files.filter(isRenderFile), (file) => file.process);
  return {
    manifest_version: manifest.schema_version,
    gpu_checkpointed: manifest.created,
    tool: manifest.tool,
    host: manifest.host,
    kernel: kernelPart(manifest),
    devices: manifest.devices,
    gpus: manifest.gpus.map((gpu) => ({ ...gpu, gfx: gfxName(gpu.gfx_target_version) })),
    processes: manifest.processes.map((process) => ({
      ...process,
      kfd: objectsPart(objects.get(process.state_file)),
      lost_queues: lostPart(manifest, objects.get(process.state_file)),
      render_files: (renderFiles.get(process.ordinal) ?? []).map((file) => renderPart(file, held)),
    })),
    buffers: { vram: buffersOf(manifest, 'vram'), gtt: buffersOf(manifest, 'gtt') },
    shared_buffers: sharedBuffers(manifest),
    warnings: inspectWarnings(manifest, objects),
    ext_files: manifest.ext_files,
    files: manifest.files,
    features: manifest.features,
    timings_us: manifest.timings_us,
    transfers: manifest.transfers?.map(transferPart),
    parent: manifest.parent,
    ignored: manifest.ignored,
  };
}

/** What is known of the recorded kernel: docs/kernels.md. */
function kernelPart({ host: { kernel_release: release } }: Manifest) {
  const { kernel, isRead } = nearestRead(release);
  return { release, is_read: isRead, nearest_read: kernel };
}

/** Why the recorded kernel cannot bring back queues of a process. Its RESTORE cannot be asked here. */
function lostPart({ host, gpus }: Manifest, known: KfdObjects | undefined) {
  if (known === undefined) return undefined;
  const gpuOf = (id: number) => gpus.find(({ gpu_id: actual }) => actual === known.devices.get(id));
  return lostQueues(known.queues, gpuOf, { kernelRelease: host.kernel_release, gpus });
}

/** The rate is in bytes per second, and 0 when no time has passed. */
function transferPart(transfer: ManifestTransfer) {
  const { file, bytes, wall_us: us } = transfer;
  const gpu = Number.parseInt(pagesPattern.exec(file)?.[2] ?? '', 16);
  return { ...transfer, gpu, bytes_per_s: us === 0 ? 0 : Math.round((bytes / us) * 1e6) };
}

/** Lists all kernel objects of a process, also buffers without contents. */
function objectsPart(known: KfdObjects | undefined) {
  if (known === undefined) return undefined;
  const { bos, queues, events, svmRanges } = known;
  return {
    bos: Object.fromEntries(
      Object.entries(bos).map(([kind, { count, bytes }]) => [kind, { count, size: bytes }]),
    ),
    queues: queues.map(({ id, gpuId, kind, ringBytes, priority }) => ({
      id,
      gpu_id: gpuId,
      kind,
      ring_size: ringBytes,
      priority,
    })),
    events: { count: events.count, set: events.set, auto_reset: events.autoReset },
    svm_ranges: { count: svmRanges.count, size: svmRanges.bytes },
  };
}

/** An open file of a render node. It has no state file when it holds only memory of KFD. */
function renderPart(
  { criu_id, kind, gpu, render_state: name }: ManifestExtFile,
  held: ReadonlyMap<string, RenderStateFacts>,
) {
  const nothing = { contexts: 0, boLists: 0, mappings: 0 };
  const known = name === undefined ? nothing : held.get(name);
  return {
    criu_id,
    gpu,
    carries_kfd: kind === 'render',
    ...(known && {
      handles: 'bos' in known ? handlesOf(known) : [],
      contexts: known.contexts,
      bo_lists: known.boLists,
      gpu_mappings: known.mappings,
    }),
  };
}

function handlesOf({ handles, bos }: RenderStateFacts) {
  return Array.from(handles, (handle, index) => ({
    handle,
    kind: boKinds[bos.kinds[index] ?? -1] ?? 'mmio',
    size: bos.sizes[index] ?? 0,
  }));
}

/** Buffers with several holders, which may be one process. The image has their contents once. */
function sharedBuffers({ buffers, shares = [] }: Manifest) {
  const holders = groupedBy(shares, ({ buffer }) => buffer);
  return buffers.flatMap(({ id, process, gpu, kind, size }) => {
    const others = holders.get(id)?.map((share) => share.process);
    return others === undefined ? [] : [{ id, gpu, kind, size, processes: [process, ...others] }];
  });
}

function buffersOf({ buffers }: Manifest, kind: 'vram' | 'gtt') {
  const chosen = buffers.filter((buffer) => buffer.kind === kind);
  return { count: chosen.length, size: chosen.reduce((sum, buffer) => sum + buffer.size, 0) };
}
