/** State files and render state files as a forger makes them: any fields, and a right checksum. */

import { createXXHash3 } from 'hash-wasm';

const hasher = await createXXHash3();
const invalidFd = 0xffffffff;

/** XXH3-64 as a number. */
export function xxh3(bytes: Buffer): bigint {
  return BigInt(`0x${hasher.init().update(bytes).digest('hex')}`);
}

/** A copy whose last 8 bytes are the checksum of all others. */
export function resealed(file: Buffer): Buffer {
  const copy = Buffer.from(file);
  copy.writeBigUInt64LE(xxh3(copy.subarray(0, -8)), copy.length - 8);
  return copy;
}

/** A copy with changed fields. Its checksum is right. */
export function forged(file: Buffer, ...fields: readonly Field[]): Buffer {
  const copy = Buffer.from(file);
  for (const [at, value, bytes = 4] of fields) {
    if (bytes === 8) copy.writeBigUInt64LE(BigInt(value), at);
    else copy.writeUIntLE(Number(value), at, bytes);
  }
  return resealed(copy);
}

/** Offset, value, and bytes: 4 without. */
export type Field = readonly [at: number, value: number | bigint, bytes?: 1 | 2 | 4 | 8];

function putWords(bytes: Buffer, at: number, words: readonly number[]): void {
  for (const [i, word] of words.entries()) bytes.writeUInt32LE(word, at + 4 * i);
}

function records(count: number, bytes: number, fill: (record: Buffer, index: number) => void) {
  const all = Buffer.alloc(count * bytes);
  for (let i = 0; i < count; i++) fill(all.subarray(i * bytes, (i + 1) * bytes), i);
  return all;
}

export interface ForgedBo {
  readonly size: number | bigint;
  /** KFD_IOC_ALLOC_MEM_FLAGS_*: 1 is VRAM, 2 is GTT. */
  readonly flags: number;
  /** As the process knows it; the first device without. */
  readonly gpuId?: number;
  readonly mmapOffset?: bigint;
}

export interface ForgedState {
  readonly ordinal?: number;
  readonly nsPid?: number;
  readonly objects?: number;
  /** [user_gpu_id, actual_gpu_id] */
  readonly devices?: readonly (readonly [number, number])[];
  readonly bos?: readonly ForgedBo[];
  /** [start, end] of mappings of /dev/kfd. */
  readonly vmas?: readonly (readonly [number, number])[];
  readonly priv?: Buffer;
}

export function stateFile({
  ordinal = 0,
  nsPid = 7,
  objects = 0,
  devices = [],
  bos = [],
  vmas = [],
  priv = Buffer.alloc(0),
}: ForgedState): Buffer {
  const header = Buffer.alloc(128);
  header.write('KFDSTATE', 'latin1');
  const words = [1, 128, ...Array(4).fill(0), 0, 0, ordinal, nsPid, objects];
  words.push(devices.length, bos.length, vmas.length);
  putWords(header, 8, words);
  header.writeBigUInt64LE(BigInt(priv.length), 64);
  putWords(header, 72, [16, 48, 32]);
  const file = Buffer.concat([
    header,
    records(devices.length, 16, (record, i) => {
      record.writeUInt32LE(devices[i]?.[0] ?? 0, 0);
      record.writeUInt32LE(devices[i]?.[1] ?? 0, 4);
      record.writeUInt32LE(invalidFd, 8);
    }),
    records(bos.length, 48, (record, i) => {
      record.writeBigUInt64LE(BigInt(bos[i]?.size ?? 0), 8);
      record.writeBigUInt64LE(bos[i]?.mmapOffset ?? 0n, 16);
      record.writeUInt32LE(bos[i]?.gpuId ?? devices[0]?.[0] ?? 0, 32);
      record.writeUInt32LE(bos[i]?.flags ?? 0, 36);
      record.writeUInt32LE(invalidFd, 40);
    }),
    records(vmas.length, 32, (record, i) => {
      record.writeBigUInt64LE(BigInt(vmas[i]?.[0] ?? 0), 0);
      record.writeBigUInt64LE(BigInt(vmas[i]?.[1] ?? 0), 8);
    }),
    priv,
    Buffer.alloc(8),
  ]);
  return forged(file, [32, file.length, 8]);
}

export interface ForgedRender {
  readonly ordinal?: number;
  readonly bos?: readonly { readonly handle: number; readonly size: number }[];
  readonly contexts?: readonly number[];
  readonly boLists?: readonly number[];
}

export function renderStateFile({
  ordinal = 0,
  bos = [],
  contexts = [],
  boLists = [],
}: ForgedRender): Buffer {
  const header = Buffer.alloc(128);
  header.write('DRMSTATE', 'latin1');
  const words = [1, 128, ...Array(6).fill(0), ordinal, bos.length, 0, 0, contexts.length, 0];
  words.push(boLists.length, 48, 40, 280, 4, 24, 4);
  putWords(header, 8, words);
  const ids = [...contexts, ...boLists];
  const file = Buffer.concat([
    header,
    records(bos.length, 48, (record, i) => {
      record.writeUInt32LE(bos[i]?.handle ?? 0, 0);
      record.writeUInt32LE(0xffffffff, 4);
      record.writeBigUInt64LE(BigInt(bos[i]?.size ?? 0), 8);
      record.writeBigUInt64LE(4n, 24); // AMDGPU_GEM_DOMAIN_VRAM
    }),
    records(ids.length, 4, (record, i) => void record.writeUInt32LE(ids[i] ?? 0)),
    Buffer.alloc(8),
  ]);
  return forged(file, [32, file.length, 8]);
}
