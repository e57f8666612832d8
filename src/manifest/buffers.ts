/** Buffers and shares of a manifest, by file and by process. Made once: a hostile manifest has many of each. */

import { type BoColumns, boKinds, type PagesSummary } from '../addon/images.js';
import { storePattern } from './names.js';
import type { Manifest, ManifestBuffer } from './schema.js';

/** The table of buffers of a pages file: ids, and bytes of content. */
export interface BufferTable {
  readonly bufferIds: Uint32Array;
  readonly bufferSizes: Float64Array;
}

/** The elements of `items` by a key, in their order. */
export function groupedBy<Item, Key>(
  items: readonly Item[],
  keyOf: (item: Item) => Key,
): ReadonlyMap<Key, readonly Item[]> {
  const groups = new Map<Key, Item[]>();
  for (const item of items) {
    const key = keyOf(item);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [item]);
    else group.push(item);
  }
  return groups;
}

/** The BOs of a process: of KFD, then of its render files. */
export function joined(parts: readonly BoColumns[]): BoColumns {
  const length = parts.reduce((sum, { sizes }) => sum + sizes.length, 0);
  const all = { sizes: new Float64Array(length), kinds: new Uint8Array(length) };
  let at = 0;
  for (const { sizes, kinds } of parts) {
    all.sizes.set(sizes, at);
    all.kinds.set(kinds, at);
    at += sizes.length;
  }
  return all;
}

/** Why a pages file does not hold the buffers that the manifest has for it; undefined when it does. */
export function tableFault(
  buffers: readonly ManifestBuffer[],
  { bufferIds, bufferSizes }: BufferTable,
): string | undefined {
  if (bufferIds.length !== buffers.length) {
    return `number of buffers is ${bufferIds.length}, the manifest says ${buffers.length}`;
  }
  // Ids in a pages file are unique, so equal numbers and a match for each leave none over.
  const sizes = new Map(buffers.map(({ id, size }) => [id, size]));
  for (const [index, id] of bufferIds.entries()) {
    const size = sizes.get(id);
    if (size === undefined) return `buffer ${id} is not in the manifest`;
    if (size !== bufferSizes[index]) {
      return `size of buffer ${id} is ${bufferSizes[index]}, the manifest says ${size}`;
    }
  }
  return undefined;
}

/**
 * Why the pages file `name` is not what the manifest says of its contents; undefined when it is. `buffers`: those that
 * the manifest has for it.
 */
export function contentsFault(
  name: string,
  buffers: readonly ManifestBuffer[],
  pages: BufferTable & Pick<PagesSummary, 'frames' | 'zeroFrames' | 'references' | 'siblings'>,
): string | undefined {
  if (!storePattern.test(name)) return tableFault(buffers, pages);
  const { bufferIds, frames, zeroFrames, references, siblings } = pages;
  if (zeroFrames + references + siblings > 0) return 'a store without the contents of a frame';
  const isPlain = bufferIds.length === frames && bufferIds.every((id, place) => id === place);
  return isPlain ? undefined : 'a store whose buffers are not its frames';
}

/** For each process the buffer of each of its BOs, also of those that share one. */
export function buffersOfBos({
  buffers,
  shares = [],
}: Manifest): ReadonlyMap<number, ReadonlyMap<number, ManifestBuffer>> {
  const byId = new Map(buffers.map((buffer) => [buffer.id, buffer]));
  const byProcess = new Map<number, Map<number, ManifestBuffer>>();
  const add = (process: number, index: number, buffer: ManifestBuffer): void => {
    const bos = byProcess.get(process);
    if (bos === undefined) byProcess.set(process, new Map([[index, buffer]]));
    else bos.set(index, buffer);
  };
  for (const buffer of buffers) add(buffer.process, buffer.bo_index, buffer);
  for (const { process, bo_index: index, buffer: id } of shares) {
    const buffer = byId.get(id);
    if (buffer !== undefined) add(process, index, buffer);
  }
  return byProcess;
}

/**
 * Why the BOs of a process do not go with its buffers in the manifest; undefined when they do. Each BO with contents
 * has a buffer, and nothing else has one.
 */
export function boFault(
  { sizes, kinds }: BoColumns,
  buffers: ReadonlyMap<number, ManifestBuffer>,
): string | undefined {
  let found = 0;
  for (const [index, size] of sizes.entries()) {
    const kind = boKinds[kinds[index] ?? -1];
    if (kind !== 'vram' && kind !== 'gtt') continue;
    const buffer = buffers.get(index);
    if (buffer === undefined) return `BO ${index} has contents, the manifest has no buffer for it`;
    if (kind !== buffer.kind || size !== buffer.size) {
      return `BO ${index} is ${kind} of ${size} bytes, the manifest says ${buffer.kind} of ${buffer.size}`;
    }
    found++;
  }
  if (found === buffers.size) return undefined;
  return `BOs with contents are ${found}, the manifest says ${buffers.size}`;
}
