/**
 * The KFD objects in a state file, for reports and rules. The private data belongs to the kernel and returns to it byte
 * for byte. Its layout on x86-64 is known. Sizes and offsets are from kfd_priv.h and kfd_svm.h, Linux 5.18 to 7.3
 * (KFD_CRIU_PRIV_VERSION 1).
 */

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
const typeOf = { queue: 0, event: 1, range: 2 } as const;
/** Attributes of an SVM range without the one for each device. */
const fixedAttributes = 4;

/** enum kfd_queue_type: SDMA, SDMA over XGMI, SDMA on a chosen engine. */
const sdmaTypes = [1, 4, 5];
/** KFD_IOC_ALLOC_MEM_FLAGS_*, the lowest five bits. */
const boKinds = ['vram', 'gtt', 'userptr', 'doorbell', 'mmio'] as const;

export interface KfdQueue {
  /** The id the process knows, unique in it. */
  readonly id: number;
  /** The id by which the process knows its GPU. */
  readonly gpuId: number;
  readonly kind: 'compute' | 'sdma' | 'other';
  /** Bytes of its ring. */
  readonly ringBytes: number;
  readonly priority: number;
  /** Bytes of its MQDs, for all XCCs together. */
  readonly mqdBytes: number;
}

/** Their number and their bytes. */
export interface Sum {
  readonly count: number;
  readonly bytes: number;
}

export interface KfdObjects {
  /** All BOs of the process, also those without contents of their own. */
  readonly bos: Readonly<Partial<Record<(typeof boKinds)[number], Sum>>>;
  readonly queues: readonly KfdQueue[];
  readonly events: { readonly count: number; readonly set: number; readonly autoReset: number };
  readonly svmRanges: Sum;
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
  let at = start + bytesOf.process + devices * bytesOf.device + count(file.bos) * bytesOf.bo;
  const queues: KfdQueue[] = [];
  const events = { count: 0, set: 0, autoReset: 0 };
  const svmRanges = { count: 0, bytes: 0 };
  for (let left = state.readUInt32LE(file.objects); left > 0; left--) {
    if (at + 4 > end) return undefined;
    const type = state.readUInt32LE(at);
    if (type === typeOf.queue && at + bytesOf.queue <= end) {
      const queue = state.subarray(at, at + bytesOf.queue);
      queues.push(queueOf(queue));
      // The control stack and the MQDs follow, with the sizes in the record.
      at += bytesOf.queue + queue.readUInt32LE(108) + queue.readUInt32LE(112);
    } else if (type === typeOf.event && at + bytesOf.event <= end) {
      events.count += 1;
      events.autoReset += state.readUInt32LE(at + 20) === 0 ? 0 : 1;
      events.set += state.readUInt32LE(at + 28) === 0 ? 0 : 1;
      at += bytesOf.event;
    } else if (type === typeOf.range && at + bytesOf.range <= end) {
      svmRanges.count += 1;
      svmRanges.bytes += Number(state.readBigUInt64LE(at + 16)) * 4096;
      at += bytesOf.range + bytesOf.attribute * (fixedAttributes + devices);
    } else {
      return undefined;
    }
  }
  const bos = bosOf(state, devices, count(file.bos));
  return at === end ? { bos, queues, events, svmRanges } : undefined;
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

function queueOf(queue: Buffer): KfdQueue {
  const type = queue.readUInt32LE(68);
  return {
    id: queue.readUInt32LE(76),
    gpuId: queue.readUInt32LE(64),
    kind: type === 0 ? 'compute' : sdmaTypes.includes(type) ? 'sdma' : 'other',
    ringBytes: Number(queue.readBigUInt64LE(16)),
    priority: queue.readUInt32LE(80),
    mqdBytes: queue.readUInt32LE(112),
  };
}
