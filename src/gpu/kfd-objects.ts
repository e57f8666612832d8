/**
 * The KFD objects in a state file, for reports and rules. The private data belongs to the kernel and returns to it byte
 * for byte. Its layout on x86-64 is known. Sizes and offsets are from kfd_priv.h and kfd_svm.h, Linux 5.18 to 7.3
 * (KFD_CRIU_PRIV_VERSION 1).
 */

import type { SdmaSlot } from './sdma-slot.js';

/** A state file's header and records: docs/image-format.md, "State file". */
const file = {
  magic: 'KFDSTATE',
  header: 128,
  devices: { at: 52, bytes: 16 },
  bos: { at: 56, bytes: 48 },
  vmas: { at: 60, bytes: 32 },
  objects: 48,
  privateBytes: 64,
} as const;

const bytesOf = { process: 8, device: 8, bo: 272, queue: 120, event: 64, range: 24, attribute: 8 };
/** struct v9_mqd: the control stack is used from its offset to its size (kfd_mqd_manager_v9.c:get_wave_state@7.3.4). */
const v9Mqd = { stackOffset: 696, stackSize: 700, bytes: 2048 } as const;
const typeOf = { queue: 0, event: 1, range: 2 } as const;
/** Attributes of an SVM range without the one for each device. */
const fixedAttributes = 4;

/** enum kfd_queue_type: SDMA; over XGMI (4 up to 6.12.118, 3 from 7.2.13 on); on a chosen engine (5, later 4). */
const sdmaTypes = [1, 3, 4, 5];

/** The kind of a queue with this enum kfd_queue_type. */
export function queueKind(type: number): QueueKind {
  return type === 0 ? 'compute' : sdmaTypes.includes(type) ? 'sdma' : 'other';
}

/** KFD_IOC_ALLOC_MEM_FLAGS_*, the lowest five bits. */
const boKinds = ['vram', 'gtt', 'userptr', 'doorbell', 'mmio'] as const;

export type QueueKind = 'compute' | 'sdma' | 'other';

export interface KfdQueue {
  /** The id the process knows, unique in it. */
  readonly id: number;
  /** The id by which the process knows its GPU. */
  readonly gpuId: number;
  readonly kind: QueueKind;
  /** Bytes of its ring. */
  readonly ringBytes: number;
  readonly priority: number;
  /** Of an SDMA queue: the place that RESTORE gives it. */
  readonly slot?: SdmaSlot;
  readonly saved: SavedQueue;
}

/** What decides whether a kernel brings the queue back. */
export interface SavedQueue {
  /** Bytes of its MQDs, for all XCCs together. */
  readonly mqdBytes: number;
  /** Its context save area begins in an SVM range of the process. */
  readonly areaInSvmRange: boolean;
  /** The MQD of gfx9 says that its control stack is in use, and none was saved. */
  readonly stoppedWithoutStack: boolean;
}

/** Their number and their bytes. */
export interface Sum {
  readonly count: number;
  readonly bytes: number;
}

export interface KfdObjects {
  /** GPUs of the process: the id that it knows, and KFD's own on the source host. */
  readonly devices: ReadonlyMap<number, number>;
  /** All BOs of the process, also those without contents of their own. */
  readonly bos: Readonly<Partial<Record<(typeof boKinds)[number], Sum>>>;
  readonly queues: readonly KfdQueue[];
  readonly events: { readonly count: number; readonly set: number; readonly autoReset: number };
  readonly svmRanges: Sum;
}

/** Whether a state file of `bytes` bytes can begin with `head`, so that it is worth the memory. */
export function isStateOf(bytes: number, head: Buffer): boolean {
  if (head.length < file.header || head.toString('latin1', 0, 8) !== file.magic) return false;
  const parts = [file.devices, file.bos, file.vmas].map((part) => ({
    count: head.readUInt32LE(part.at),
    bytes: part.bytes,
  }));
  if (parts.some(({ count }) => count > maxRecords)) return false;
  const records = parts.reduce((sum, part) => sum + part.count * part.bytes, 0);
  return file.header + records + Number(head.readBigUInt64LE(file.privateBytes)) + 8 === bytes;
}

/** Far above any process, and far below what fills the memory of a command. */
const fewDevices = 1024;
const fewObjects = 1 << 16;

/** Whether the objects of many such states may be kept. `head`: its begin, of which `isStateOf` holds. */
export function hasFewObjects(head: Buffer): boolean {
  const devices = head.readUInt32LE(file.devices.at);
  return devices <= fewDevices && head.readUInt32LE(file.objects) <= fewObjects;
}

/** undefined for bytes with another layout: another kernel, or damage. */
export function kfdObjectsOf(state: Buffer): KfdObjects | undefined {
  if (state.length < file.header || state.toString('latin1', 0, 8) !== file.magic) return undefined;
  const count = (part: { readonly at: number }) => state.readUInt32LE(part.at);
  const devices = count(file.devices);
  const start =
    file.header +
    devices * file.devices.bytes +
    count(file.bos) * file.bos.bytes +
    count(file.vmas) * file.vmas.bytes;
  const end = start + Number(state.readBigUInt64LE(file.privateBytes));
  if (end > state.length) return undefined;
  const at = start + bytesOf.process + devices * bytesOf.device + count(file.bos) * bytesOf.bo;
  const records = recordsOf(state, at, end, devices);
  if (records === undefined) return undefined;
  const pages = records.ranges.sort((a, b) => a.first - b.first);
  return {
    devices: devicesOf(state, devices),
    bos: bosOf(state, devices, count(file.bos)),
    queues: records.queues.map((queue) => queueOf(queue, pages)),
    events: records.events,
    svmRanges: {
      count: pages.length,
      bytes: pages.reduce((sum, range) => sum + range.count * 4096, 0),
    },
  };
}

/** Records of one kind, and objects in the private data. Far above any process: a bound for hostile files. */
const maxRecords = 1 << 20;

/** The records from `at` to `end`, which they fill; undefined when they do not. */
function recordsOf(state: Buffer, at: number, end: number, devices: number) {
  const found = {
    queues: [] as Buffer[],
    ranges: [] as Pages[],
    events: { count: 0, set: 0, autoReset: 0 },
  };
  let place = at;
  const objects = state.readUInt32LE(file.objects);
  if (objects > maxRecords) return undefined;
  for (let left = objects; left > 0; left--) {
    if (place + 4 > end) return undefined;
    const type = state.readUInt32LE(place);
    const kind = (Object.keys(typeOf) as (keyof typeof typeOf)[]).find((of) => typeOf[of] === type);
    if (kind === undefined || place + bytesOf[kind] > end) return undefined;
    let bytes = bytesOf[kind];
    // The MQDs and the control stack follow, with the sizes in the record.
    if (kind === 'queue')
      bytes += state.readUInt32LE(place + 108) + state.readUInt32LE(place + 112);
    if (kind === 'range') bytes += bytesOf.attribute * (fixedAttributes + devices);
    const record = state.subarray(place, Math.min(place + bytes, end));
    if (kind === 'event') {
      found.events.count++;
      if (record.readUInt32LE(28) !== 0) found.events.set++;
      if (record.readUInt32LE(20) !== 0) found.events.autoReset++;
    } else if (kind === 'queue') found.queues.push(record);
    else {
      const [first, count] = [record.readBigUInt64LE(8), record.readBigUInt64LE(16)].map(Number);
      found.ranges.push({ first: first ?? 0, count: count ?? 0 });
    }
    place += bytes;
  }
  return place === end ? found : undefined;
}

/** struct kfd_criu_device_bucket: user_gpu_id, actual_gpu_id. */
function devicesOf(state: Buffer, count: number): ReadonlyMap<number, number> {
  const places = Array.from({ length: count }, (_, i) => file.header + i * file.devices.bytes);
  return new Map(places.map((at) => [state.readUInt32LE(at), state.readUInt32LE(at + 4)]));
}

/** struct kfd_criu_bo_bucket: size at 8, flags at 36. */
function bosOf(state: Buffer, devices: number, count: number): KfdObjects['bos'] {
  const sums: Partial<Record<(typeof boKinds)[number], Sum>> = {};
  for (let index = 0; index < count; index++) {
    const at = file.header + devices * file.devices.bytes + index * file.bos.bytes;
    const flags = state.readUInt32LE(at + 36);
    const kind = boKinds.find((_, bit) => (flags & (1 << bit)) !== 0);
    if (kind === undefined) continue;
    const { count: before, bytes } = sums[kind] ?? { count: 0, bytes: 0 };
    sums[kind] = { count: before + 1, bytes: bytes + Number(state.readBigUInt64LE(at + 8)) };
  }
  return sums;
}

/** Of an SVM range. */
interface Pages {
  readonly first: number;
  readonly count: number;
}

/** `ranges`: in the order of their first pages. They do not overlap in any process. */
function queueOf(queue: Buffer, ranges: readonly Pages[]): KfdQueue {
  const area = Number(queue.readBigUInt64LE(56) / 4096n);
  return {
    id: queue.readUInt32LE(76),
    gpuId: queue.readUInt32LE(64),
    kind: queueKind(queue.readUInt32LE(68)),
    ringBytes: Number(queue.readBigUInt64LE(16)),
    priority: queue.readUInt32LE(80),
    ...slotOf(queue),
    saved: {
      mqdBytes: queue.readUInt32LE(112),
      areaInSvmRange: area > 0 && isIn(ranges, area),
      stoppedWithoutStack: stoppedWithoutStack(queue),
    },
  };
}

/** The driver keeps a queue for a chosen engine as one of PCIe or XGMI (allocate_sdma_queue@6.12.118). */
function slotOf(queue: Buffer): Pick<KfdQueue, 'slot'> {
  const type = queue.readUInt32LE(68);
  if (queueKind(type) !== 'sdma') return {};
  return { slot: { link: type === 1 ? 'pcie' : 'xgmi', id: queue.readUInt32LE(96) } };
}

function isIn(ranges: readonly Pages[], page: number): boolean {
  let [low, high] = [0, ranges.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((ranges[middle]?.first ?? 0) <= page) low = middle + 1;
    else high = middle;
  }
  const last = ranges[low - 1];
  return last !== undefined && page < last.first + last.count;
}

/** An MQD of another generation has other fields there: the answer is about gfx9 alone. */
function stoppedWithoutStack(queue: Buffer): boolean {
  const [stack, mqds] = [queue.readUInt32LE(108), queue.readUInt32LE(112)];
  if (stack !== 0 || mqds < v9Mqd.bytes) return false;
  const mqd = queue.subarray(bytesOf.queue);
  return mqd.readUInt32LE(v9Mqd.stackOffset) < mqd.readUInt32LE(v9Mqd.stackSize);
}
