/** A small valid manifest, fresh on every call, for tests to bend. */

import type { Manifest } from '../../src/manifest/schema.js';

export function sampleManifest(): Manifest {
  return {
    schema_version: 1,
    tool: { name: 'kfd-checkpoint', version: '0.1.0' },
    created: '2026-11-21T12:00:00.000Z',
    host: {
      hostname: 'source',
      kernel_release: '6.12.107+deb13-amd64',
      kfd_version: '1.17',
      machine: 'x86_64',
    },
    gpus: [
      {
        ordinal: 0,
        gpu_id: 51966,
        gfx_target_version: 90010,
        device_id: 29708,
        vendor_id: 4098,
        vram_bytes: 68702699520,
        render_minor: 128,
        num_xcc: 1,
        simd_count: 416,
        location: '0000:03:00.0',
      },
      {
        ordinal: 1,
        gpu_id: 47806,
        gfx_target_version: 90010,
        device_id: 29708,
        vendor_id: 4098,
        vram_bytes: 68702699520,
        render_minor: 129,
        num_xcc: 1,
        simd_count: 416,
        location: '0000:43:00.0',
      },
    ],
    devices: {
      kfd_major: 234,
      kfd_minor: 0,
      render: [
        { minor: 128, major: 226 },
        { minor: 129, major: 226 },
      ],
    },
    processes: [
      {
        ordinal: 0,
        pid: 4711,
        ns_pid: 7,
        comm: 'worker',
        state_file: 'kfd-state-0.img',
        gpus: [0, 1],
        num_bos: 24,
        num_queues: 2,
        num_objects: 9,
        vram_bytes: 3145728,
        gtt_bytes: 4096,
      },
    ],
    ext_files: [
      { criu_id: 5, kind: 'kfd', process: 0 },
      { criu_id: 6, kind: 'render', process: 0, gpu: 0 },
    ],
    buffers: [
      {
        id: 0,
        process: 0,
        bo_index: 3,
        gpu: 0,
        size: 2097152,
        kind: 'vram',
        pages_file: 'amdgpu-pages-0-0000.img',
      },
      {
        id: 1,
        process: 0,
        bo_index: 4,
        gpu: 0,
        size: 4096,
        kind: 'gtt',
        pages_file: 'amdgpu-pages-0-0000.img',
      },
      {
        id: 2,
        process: 0,
        bo_index: 5,
        gpu: 1,
        size: 1048576,
        kind: 'vram',
        pages_file: 'amdgpu-pages-0-0001.img',
      },
    ],
    files: [
      {
        name: 'kfd-state-0.img',
        size: 8192,
        digest: {
          algo: 'sha256',
          hex: 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
        },
      },
      {
        name: 'amdgpu-pages-0-0000.img',
        size: 2109440,
        digest: { algo: 'xxh3-128', hex: '99aa06d3014798d86001c324468d497f' },
      },
      {
        name: 'amdgpu-pages-0-0001.img',
        size: 1060864,
        digest: { algo: 'xxh3-128', hex: '0ab1c2d3e4f5061728394a5b6c7d8e9f' },
      },
    ],
    features: { required: [], optional: [] },
    timings_us: { state: 1200, drain: 84000, seal: 300 },
    parent: null,
  };
}
