/** `kfd-manifest.json`, version 1: the shape of the document. docs/image-format.md, "Manifest". */

import * as v from 'valibot';
import { archiveNamePattern, namedFilePattern } from './names.js';

/** Upper bounds of the numbers in a manifest; far above any real checkpoint. */
export const manifestLimits = {
  /** Size of the manifest, bytes. */
  fileBytes: 64 << 20,
  gpus: 256,
  processes: 4096,
  buffers: 500_000,
  /** Files, and device files. */
  files: 65_536,
  /** Size of one buffer or one file, bytes: 1 PiB. */
  bytes: 2 ** 50,
  /** Size of a state file, bytes. State files are held in memory. */
  stateBytes: 1 << 30,
} as const;

/** Differences between the source and another host that an operator may ignore. */
export const differences = ['cpu', 'driver', 'firmware'] as const;
export type Difference = (typeof differences)[number];

const count = (max: number) => v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(max));
const text = (max: number) => v.pipe(v.string(), v.maxLength(max));
/** The length is checked before the elements. */
const list = <Item extends v.GenericSchema>(item: Item, max: number, min = 0) =>
  v.pipe(
    v.custom<unknown[]>(
      (value) => Array.isArray(value) && value.length >= min && value.length <= max,
      `not a list of ${min} to ${max} elements`,
    ),
    v.array(item),
  );
const u32 = count(0xffff_ffff);
const bytes = count(manifestLimits.bytes);
const gpuOrdinal = count(manifestLimits.gpus - 1);
const processOrdinal = count(manifestLimits.processes - 1);
const imageFile = v.pipe(
  v.string(),
  v.maxLength(64),
  v.regex(namedFilePattern, 'not the name of a state or pages file'),
);
const hex = (digits: number) =>
  v.pipe(v.string(), v.regex(new RegExp(`^[0-9a-f]{${digits}}$`), `not ${digits} hex digits`));

/** A GPU as a host has it. */
export const gpuSchema = v.strictObject({
  ordinal: gpuOrdinal,
  /** KFD's id of the GPU on the source host. */
  gpu_id: u32,
  /** Major * 10000 + minor * 100 + stepping, e.g. 90010 for gfx90a. */
  gfx_target_version: u32,
  device_id: u32,
  vendor_id: u32,
  vram_bytes: bytes,
  render_minor: u32,
  /** Minor of its card node; missing when the container has none. */
  card_minor: v.exactOptional(u32),
  num_xcc: u32,
  simd_count: u32,
  /** PCI address, "0000:03:00.0". */
  location: v.pipe(v.string(), v.regex(/^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$/)),
  /** A 64-bit number in decimal. GPUs with the same number are linked by XGMI. */
  hive_id: v.exactOptional(v.pipe(v.string(), v.regex(/^[1-9]\d{0,19}$/, 'not a decimal number'))),
  /** Firmware versions of MEC and SDMA, from KFD's topology. Missing: not recorded. */
  fw_version: v.exactOptional(u32),
  sdma_fw_version: v.exactOptional(u32),
});

const process = v.strictObject({
  ordinal: processOrdinal,
  /** Pid on the source host, and pid in the innermost pid namespace. */
  pid: u32,
  ns_pid: u32,
  comm: text(64),
  state_file: imageFile,
  gpus: list(gpuOrdinal, manifestLimits.gpus),
  /** The GPUs on which it has SDMA queues of KFD; missing: not known. */
  sdma_gpus: v.exactOptional(list(gpuOrdinal, manifestLimits.gpus)),
  num_bos: u32,
  num_queues: v.exactOptional(u32),
  /** Queues + events + SVM ranges in the blob. */
  num_objects: u32,
  vram_bytes: bytes,
  gtt_bytes: bytes,
});

/** A descriptor that CRIU's image has as an external file of the plugin. */
const extFile = v.strictObject({
  criu_id: u32,
  /** `render`: the file with KFD's memory on that GPU; `drm`: any other file of a render node. */
  kind: v.picklist(['kfd', 'render', 'drm', 'dmabuf']),
  /** Ordinal of the file's process; for a dma-buf, of the process that owns the buffer. */
  process: processOrdinal,
  gpu: v.exactOptional(gpuOrdinal),
  /** Contents of a render file beside KFD's memory; missing: none. */
  render_state: v.exactOptional(imageFile),
  /** For a dma-buf: the id of its buffer. */
  buffer: v.exactOptional(u32),
});

const buffer = v.strictObject({
  /** The id of the content in the pages file. */
  id: u32,
  process: processOrdinal,
  /** Index into the BOs of the process: the BO buckets of its state file, then the BOs of its render state files. */
  bo_index: u32,
  gpu: gpuOrdinal,
  size: bytes,
  kind: v.picklist(['vram', 'gtt']),
  pages_file: imageFile,
});

/** A BO that shares a buffer of `buffers`. */
const share = v.strictObject({
  process: processOrdinal,
  bo_index: u32,
  /** The id of that buffer. */
  buffer: u32,
});

const digest = v.variant('algo', [
  v.strictObject({ algo: v.literal('xxh3-128'), hex: hex(32) }),
  v.strictObject({ algo: v.literal('sha256'), hex: hex(64) }),
]);

const file = v.strictObject({ name: imageFile, size: bytes, digest });

const featureList = list(
  v.pipe(v.string(), v.regex(/^[a-z0-9][a-z0-9-]{0,63}$/, 'not a feature name')),
  64,
);

/** The checkpoint that stores the unchanged contents. */
const parent = v.strictObject({
  /** Name of the archive, without folder. It is a hint for the search. */
  archive: v.pipe(text(255), v.regex(archiveNamePattern, 'not the name of a file')),
  /** Pages files that refer to a pages file of the parent, which its root identifies. */
  files: list(v.strictObject({ name: imageFile, root: hex(32) }), manifestLimits.files, 1),
});

const microseconds = count(Number.MAX_SAFE_INTEGER);

/** How one pages file was written, for humans. Times are microseconds; times of workers are sums over all workers. */
const transfer = v.strictObject({
  file: imageFile,
  /** The copy engine. */
  engine: v.picklist(['sdma', 'cpu']),
  /** Why SDMA, which would have been used, was not. */
  engine_reason: v.exactOptional(text(1024)),
  workers: u32,
  /** Bytes of contents in buffers; bytes of frames as written. */
  bytes,
  stored_bytes: bytes,
  /** From the start to the end of the file. */
  wall_us: microseconds,
  /** Waits of the thread that drives the copy engine, for copies and for workers. */
  copy_wait_us: microseconds,
  work_wait_us: microseconds,
  /**
   * Work of the workers: writing; coding (tests for zeros, checksums, compression); the part for checksums; waits for
   * their turn.
   */
  file_us: microseconds,
  code_us: microseconds,
  hash_us: microseconds,
  turn_wait_us: microseconds,
  slowest: v.picklist(['copy', 'file', 'code']),
});

/** Members in the order of the file. `seal` follows them. */
export const manifestSchema = v.strictObject({
  schema_version: v.literal(1),
  tool: v.strictObject({ name: text(64), version: text(64) }),
  created: v.pipe(v.string(), v.maxLength(40), v.isoTimestamp('not an RFC 3339 time')),
  host: v.strictObject({
    hostname: text(255),
    kernel_release: text(255),
    /** "major.minor" of AMDKFD_IOC_GET_VERSION. */
    kfd_version: v.pipe(v.string(), v.regex(/^\d{1,5}\.\d{1,5}$/, 'not "major.minor"')),
    /** As `uname -m`. */
    machine: text(64),
    /** The build of the amdgpu module; an attribute that the kernel does not show is missing. Missing: not recorded. */
    driver: v.exactOptional(
      v.strictObject({
        version: v.exactOptional(text(255)),
        srcversion: v.exactOptional(text(255)),
      }),
    ),
    /** Missing: not recorded, as on other machines than x86. */
    cpu: v.exactOptional(
      v.strictObject({
        model: text(128),
        /** Names in /proc/cpuinfo of what user space may depend on. */
        flags: list(v.pipe(v.string(), v.regex(/^[a-z0-9_]{1,32}$/, 'not a CPU flag')), 512),
        /** Bytes that XSAVE writes at most. Missing: not known. */
        xsave_bytes: v.exactOptional(u32),
      }),
    ),
  }),
  gpus: list(gpuSchema, manifestLimits.gpus, 1),
  devices: v.strictObject({
    kfd_major: u32,
    kfd_minor: u32,
    render: list(v.strictObject({ minor: u32, major: u32 }), manifestLimits.gpus),
    /**
     * The nodes that replaced recorded nodes when the archive was rewritten for another host. The numbers above
     * are then of that host.
     */
    assigned: v.exactOptional(
      list(
        v.strictObject({
          gpu: gpuOrdinal,
          render_minor: u32,
          card_minor: v.exactOptional(u32),
        }),
        manifestLimits.gpus,
      ),
    ),
  }),
  processes: list(process, manifestLimits.processes, 1),
  ext_files: list(extFile, manifestLimits.files),
  buffers: list(buffer, manifestLimits.buffers),
  /** Missing: none. */
  shares: v.exactOptional(list(share, manifestLimits.buffers)),
  files: list(file, manifestLimits.files),
  /** Names of features that a restorer must know (required) or may ignore (optional). */
  features: v.strictObject({ required: featureList, optional: featureList }),
  /** Times of the checkpoint, microseconds. */
  timings_us: v.record(
    v.pipe(v.string(), v.regex(/^[a-z][a-z0-9_]{0,63}$/, 'not a timing name')),
    v.pipe(v.number(), v.finite(), v.minValue(0)),
  ),
  /** One entry for each pages file; missing: not known. */
  transfers: v.exactOptional(list(transfer, manifestLimits.files)),
  parent: v.nullable(parent),
  /** Differences that were ignored on purpose when the archive was rewritten. Missing: none. */
  ignored: v.exactOptional(list(v.picklist(differences), 64)),
});

/** The content of a manifest. The writer adds the seal, the reader checks it. */
export type Manifest = v.InferOutput<typeof manifestSchema>;
export type ManifestGpu = Manifest['gpus'][number];
export type ManifestProcess = Manifest['processes'][number];
export type ManifestExtFile = Manifest['ext_files'][number];
export type ManifestBuffer = Manifest['buffers'][number];
export type ManifestParent = v.InferOutput<typeof parent>;
export type ManifestShare = v.InferOutput<typeof share>;
export type ManifestTransfer = v.InferOutput<typeof transfer>;
export type ManifestFile = Manifest['files'][number];

/** A file of a render node, with any kind of memory. */
export function isRenderFile({ kind }: Pick<ManifestExtFile, 'kind'>): boolean {
  return kind === 'render' || kind === 'drm';
}
