/** State files for tests of the report: laid out like a kernel's, with no meaning beyond that. */

export interface StateParts {
  readonly devices: number;
  /** Ids of the first of them: as the process knows them, and KFD's. */
  readonly ids?: readonly (readonly [user: number, actual: number])[];
  readonly bos: readonly { readonly flags: number; readonly size: number }[];
  readonly vmas: number;
  readonly queues: readonly {
    readonly id: number;
    readonly gpuId: number;
    readonly type: number;
    readonly ringBytes: number;
    readonly priority: number;
    readonly sdmaId?: number;
    readonly mqd: number;
    readonly controlStack: number;
    /** Address of its save area. */
    readonly saveArea?: number;
    /** In the MQD of gfx9: where the used part of the control stack begins, and where it ends. */
    readonly stack?: readonly [offset: number, size: number];
  }[];
  readonly events: readonly { readonly autoReset: boolean; readonly isSet: boolean }[];
  readonly ranges: readonly { readonly first?: number; readonly pages: number }[];
}

export function stateBytes(parts: StateParts): Buffer {
  const { devices, bos, vmas, queues, events, ranges } = parts;
  const priv = Buffer.concat([
    Buffer.alloc(8 + devices * 8 + bos.length * 272),
    ...queues.map((queue) => {
      const bytes = Buffer.alloc(120 + queue.mqd + queue.controlStack);
      bytes.writeBigUInt64LE(BigInt(queue.ringBytes), 16);
      const words = [
        [64, queue.gpuId],
        [68, queue.type],
        [76, queue.id],
        [80, queue.priority],
        [96, queue.sdmaId ?? 0],
        [108, queue.controlStack],
        [112, queue.mqd],
      ] as const;
      for (const [at, value] of words) bytes.writeUInt32LE(value, at);
      bytes.writeBigUInt64LE(BigInt(queue.saveArea ?? 0), 56);
      queue.stack?.forEach((value, word) => {
        bytes.writeUInt32LE(value, 120 + 696 + 4 * word);
      });
      return bytes;
    }),
    ...events.map(({ autoReset, isSet }) => {
      const bytes = Buffer.alloc(64);
      bytes.writeUInt32LE(1, 0);
      bytes.writeUInt32LE(autoReset ? 1 : 0, 20);
      bytes.writeUInt32LE(isSet ? 1 : 0, 28);
      return bytes;
    }),
    ...ranges.map(({ first = 0, pages }) => {
      const bytes = Buffer.alloc(24 + 8 * (4 + devices));
      bytes.writeUInt32LE(2, 0);
      bytes.writeBigUInt64LE(BigInt(first), 8);
      bytes.writeBigUInt64LE(BigInt(pages), 16);
      return bytes;
    }),
  ]);
  const header = Buffer.alloc(128);
  header.write('KFDSTATE', 0, 'latin1');
  const counts = [
    [48, queues.length + events.length + ranges.length],
    [52, devices],
    [56, bos.length],
    [60, vmas],
  ] as const;
  for (const [at, value] of counts) header.writeUInt32LE(value, at);
  header.writeBigUInt64LE(BigInt(priv.length), 64);
  const buckets = bos.map(({ flags, size }) => {
    const bucket = Buffer.alloc(48);
    bucket.writeBigUInt64LE(BigInt(size), 8);
    bucket.writeUInt32LE(flags, 36);
    return bucket;
  });
  const deviceBuckets = Buffer.alloc(devices * 16);
  parts.ids?.flat().forEach((id, i) => {
    deviceBuckets.writeUInt32LE(id, (i >> 1) * 16 + (i & 1) * 4);
  });
  return Buffer.concat([
    header,
    deviceBuckets,
    ...buckets,
    Buffer.alloc(vmas * 32),
    priv,
    Buffer.alloc(8),
  ]);
}
