/** Pages files as a forger makes them: any frames and fields, and right checksums. docs/image-format.md. */

import { createXXHash128 } from 'hash-wasm';
import { xxh3 } from './forged-state.js';

const hasher = await createXXHash128();

/** XXH3-128, 32 hex digits. */
export function xxh128(...parts: readonly Buffer[]): string {
  hasher.init();
  for (const part of parts) hasher.update(part);
  return hasher.digest('hex');
}

export type ForgedFrame =
  /** Zeros. */
  | { readonly zero: number }
  | { readonly raw: Buffer; readonly digest?: string }
  /** Stored bytes of another codec that should decode to `like`. */
  | { readonly packed: Buffer; readonly codec: number; readonly like: Buffer }
  /** Another frame's content: in the parent by number, or in a sibling by its packed place. */
  | { readonly like: Buffer; readonly reference: number }
  | { readonly like: Buffer; readonly sibling: bigint };

export interface ForgedBuffer {
  readonly id: number;
  readonly frames: readonly ForgedFrame[];
}

export interface ForgedPages {
  readonly process?: number;
  readonly gpu?: number;
  /** Without digests nothing can refer to anything. */
  readonly digests?: boolean;
  /** Root of the parent. */
  readonly parent?: string;
  readonly buffers: readonly ForgedBuffer[];
  /** Changes the header, and the header of the index, before their checksums. */
  readonly bendHeader?: (header: Buffer) => void;
  readonly bendIndex?: (index: Buffer) => void;
  /** Changes the whole index: tables and records, before the root. */
  readonly bendTables?: (tables: Buffer) => void;
  /** Changes the first record, beside its frame and in the index; and the footer, before its checksum. */
  readonly bendRecord?: (record: Buffer) => void;
  readonly bendFooter?: (footer: Buffer) => void;
}

const align = (value: number, to: number) => Math.ceil(value / to) * to;
export const frameBytes = 1 << 20;

function sizeOf(frame: ForgedFrame): number {
  if ('zero' in frame) return frame.zero;
  return 'raw' in frame ? frame.raw.length : frame.like.length;
}

function storedOf(frame: ForgedFrame): Buffer | undefined {
  if ('raw' in frame) return frame.raw;
  return 'packed' in frame ? frame.packed : undefined;
}

/** The record of a frame; stored frames begin `at` there. */
function recordOf(frame: ForgedFrame, at: number, digests: boolean): Buffer {
  const record = Buffer.alloc(64);
  record.write('KFDF', 'latin1');
  record.writeUInt32LE(sizeOf(frame), 20);
  if ('zero' in frame) return record;
  const content = 'raw' in frame ? frame.raw : frame.like;
  record.writeBigUInt64LE(xxh3(content), 24);
  if (digests) {
    const digest = 'raw' in frame ? frame.digest : undefined;
    Buffer.from(digest ?? xxh128(content), 'hex').copy(record, 32);
  }
  if ('raw' in frame) {
    record[4] = 1;
    record.writeBigUInt64LE(BigInt(align(at + 64, 4096)), 8);
    record.writeUInt32LE(content.length, 16);
  } else if ('packed' in frame) {
    record[4] = frame.codec;
    record.writeBigUInt64LE(BigInt(at + 64), 8);
    record.writeUInt32LE(frame.packed.length, 16);
  } else if ('reference' in frame) {
    record[4] = 3;
    record.writeBigUInt64LE(BigInt(frame.reference), 8);
  } else {
    record[4] = 6;
    record.writeBigUInt64LE(frame.sibling, 8);
  }
  return record;
}

function seal(block: Buffer): Buffer {
  block.writeBigUInt64LE(xxh3(block.subarray(0, -8)), block.length - 8);
  return block;
}

/** The file and its root. */
export function pagesFile(pages: ForgedPages): { readonly file: Buffer; readonly root: string } {
  const { process = 0, gpu = 0, digests = true, parent, buffers } = pages;
  const all = buffers.flatMap(({ frames }) => frames);
  const isA = (key: string) => all.filter((frame) => key in frame);
  const header = Buffer.alloc(4096);
  header.write('KFDPAGES', 'latin1');
  header.writeUInt32LE(1, 8);
  header.writeUInt32LE(4096, 12);
  const required = (parent ? 1n : 0n) | (isA('sibling').length > 0 ? 32n : 0n);
  header.writeBigUInt64LE(required, 16);
  header.writeBigUInt64LE(digests ? 1n : 0n, 24);
  [frameBytes, process, gpu, digests ? 1 : 0].forEach((word, i) => {
    header.writeUInt32LE(word, 32 + 4 * i);
  });
  if (parent !== undefined) Buffer.from(parent, 'hex').copy(header, 48);
  pages.bendHeader?.(header);
  const parts = [seal(header)];
  let at = header.length;
  const records: Buffer[] = [];
  for (const frame of all) {
    const record = recordOf(frame, at, digests);
    if (records.push(record) === 1) pages.bendRecord?.(record);
    const stored = storedOf(frame);
    if (stored === undefined) continue;
    const begin = 'raw' in frame ? align(at + 64, 4096) : at + 64;
    const end = align(begin + stored.length, 64);
    const padding = Buffer.alloc(begin - at - 64);
    parts.push(record, padding, stored, Buffer.alloc(end - begin - stored.length));
    at = end;
  }
  const tables = tablesOf(buffers, records);
  pages.bendTables?.(tables);
  const index = Buffer.alloc(64);
  index.write('KFDINDEX', 'latin1');
  index.writeUInt32LE(buffers.length, 8);
  index.writeUInt32LE(1024, 12);
  const content = all.reduce((sum, frame) => sum + sizeOf(frame), 0);
  const stored = all.reduce((sum, frame) => sum + (storedOf(frame)?.length ?? 0), 0);
  [all.length, isA('zero').length, content, stored].forEach((value, i) => {
    index.writeBigUInt64LE(BigInt(value), 16 + 8 * i);
  });
  index.writeUInt32LE(isA('reference').length, 48);
  index.writeUInt32LE(isA('sibling').length, 52);
  pages.bendIndex?.(index);
  seal(index);
  const root = xxh128(header, index, tables);
  const footer = Buffer.alloc(64);
  footer.write('KFDPGEND', 'latin1');
  footer.writeBigUInt64LE(BigInt(at), 8);
  footer.writeBigUInt64LE(BigInt(at + 64 + tables.length + 64 * records.length + 64), 16);
  Buffer.from(root, 'hex').copy(footer, 24);
  pages.bendFooter?.(footer);
  return { file: Buffer.concat([...parts, index, tables, ...records, seal(footer)]), root };
}

/** The table of buffers and the digests of the pages of records. */
function tablesOf(buffers: readonly ForgedBuffer[], records: readonly Buffer[]): Buffer {
  let first = 0;
  const table = buffers.map(({ id, frames }) => {
    const entry = Buffer.alloc(32);
    entry.writeUInt32LE(id, 0);
    const size = frames.reduce((sum, frame) => sum + sizeOf(frame), 0);
    [size, first, frames.length].forEach((value, i) => {
      entry.writeBigUInt64LE(BigInt(value), 8 + 8 * i);
    });
    first += frames.length;
    return entry;
  });
  const digests: Buffer[] = [];
  for (let at = 0; at < records.length; at += 1024) {
    digests.push(Buffer.from(xxh128(...records.slice(at, at + 1024)), 'hex'));
  }
  const tables = Buffer.concat([...table, ...digests]);
  return Buffer.concat([tables, Buffer.alloc(-tables.length & 63)]);
}
