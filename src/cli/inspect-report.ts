/** What `inspect` knows, as the JSON it prints. Keys of the engine's part are checkpointctl's. */

import type { CheckpointContents } from '../archive/contents.js';
import { gfxName } from '../gpu/properties.js';
import type { Manifest } from '../manifest/schema.js';

/** Within `schema_version` 1 members are only added. Sizes in bytes, times RFC 3339. */
export function inspectReport(contents: CheckpointContents) {
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
    ...(manifest && manifestPart(manifest)),
  };
}

export type InspectReport = ReturnType<typeof inspectReport>;

function gpuState({ manifest, imageFiles }: CheckpointContents): 'none' | 'unsealed' | 'sealed' {
  if (manifest !== undefined) return 'sealed';
  return imageFiles.size === 0 ? 'none' : 'unsealed';
}

function manifestPart(manifest: Manifest) {
  return {
    manifest_version: manifest.schema_version,
    gpu_checkpointed: manifest.created,
    tool: manifest.tool,
    host: manifest.host,
    devices: manifest.devices,
    gpus: manifest.gpus.map((gpu) => ({ ...gpu, gfx: gfxName(gpu.gfx_target_version) })),
    processes: manifest.processes,
    buffers: { vram: buffersOf(manifest, 'vram'), gtt: buffersOf(manifest, 'gtt') },
    ext_files: manifest.ext_files,
    files: manifest.files,
    features: manifest.features,
    timings_us: manifest.timings_us,
  };
}

function buffersOf({ buffers }: Manifest, kind: 'vram' | 'gtt') {
  const chosen = buffers.filter((buffer) => buffer.kind === kind);
  return { count: chosen.length, size: chosen.reduce((sum, buffer) => sum + buffer.size, 0) };
}
