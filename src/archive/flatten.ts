/** Ending a chain of checkpoints: pages files get the contents that they refer to in a parent. */

import { stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { ChainPart, PagesPart } from '../addon.js';
import { isMissing, KfdError } from '../errors.js';
import { type BufferTable, groupedBy, tableFault } from '../manifest/buffers.js';
import { encodeManifest } from '../manifest/codec.js';
import { isDetached } from '../manifest/elsewhere.js';
import { manifestName, pagesPattern, parentFeature } from '../manifest/names.js';
import type { Manifest, ManifestFile, ManifestParent } from '../manifest/schema.js';
import { imagePrefix } from './names.js';
import {
  assertRoom,
  bytesToUnpack,
  type CheckpointWithPages,
  type CheckpointWithPlaces,
  type PagesOptions,
  readWithPlaces,
  withPages,
} from './pages-parts.js';
import type { Contents } from './rewrite.js';

/**
 * Writes the new pages file `target` from `chain`: a file, its parent, its grandparent and so on. Sizes are bytes. All
 * targets belong to one image: a frame that an earlier target has is not stored again. Throws E_IMAGE_CORRUPT for a
 * file with another root or other ordinals than its manifest says, and for damage.
 */
export type FlattenPages = (
  chain: readonly ChainPart[],
  target: string,
  signal: AbortSignal | undefined,
) => Promise<BufferTable & { readonly fileBytes: number; readonly root: string }>;

/** The longest chain. It also ends a circle of hostile archives. */
const maxChain = 64;

/** A manifest without references to a parent. Sizes and digests of its pages files are still the old ones. */
export function withoutParent(manifest: Manifest): Manifest {
  const { features } = manifest;
  const required = features.required.filter((name) => name !== parentFeature);
  return { ...manifest, features: { ...features, required }, parent: null };
}

/** A checkpoint and its ancestors, with readable contents. */
export type Chain = readonly CheckpointWithPages[];

/**
 * Finds the ancestors of the checkpoint at `path`. Each is the next element of `parents`; after the last element it
 * lies beside the archive that names it. Nothing is unpacked into `folder` before all of them are known. Throws
 * E_IMAGE_MISSING for a missing or wrong ancestor, E_IMAGE_CORRUPT for a circle, E_USAGE for unused elements, E_IO
 * without room, and the errors of `readContents` and `withPages`.
 */
export async function findChain(
  path: string,
  parents: readonly string[],
  options: PagesOptions,
  folder: string,
): Promise<Chain> {
  const found: CheckpointWithPlaces[] = [];
  const seen = new Set<string>();
  const left = [...parents];
  for (let at = path; ; ) {
    const { dev, ino } = await identityOf(at);
    if (seen.has(`${dev}:${ino}`)) {
      throw new KfdError('E_IMAGE_CORRUPT', `${at}: is its own ancestor`);
    }
    seen.add(`${dev}:${ino}`);
    const one = await readWithPlaces(at, options);
    const child = found.at(-1)?.contents.manifest?.parent;
    if (child) assertParent(child, one, at);
    assertComplete(one);
    found.push(one);
    const parent = one.contents.manifest?.parent;
    if (!parent) break;
    if (found.length > maxChain) {
      throw new KfdError('E_IMAGE_CORRUPT', `${path}: more than ${maxChain} ancestors`);
    }
    at = left.shift() ?? (await beside(at, parent));
  }
  const [extra] = left;
  if (extra !== undefined) {
    throw new KfdError('E_USAGE', `${extra}: ${path} needs ${found.length - 1} parents, not more`);
  }
  await assertRoom(
    folder,
    found.reduce((sum, one) => sum + bytesToUnpack(one), 0),
  );
  const chain: CheckpointWithPages[] = [];
  for (const one of found) {
    chain.push(await withPages(one, options, folder, `${chain.length}-`));
  }
  return chain;
}

async function identityOf(path: string): Promise<{ dev: bigint; ino: bigint }> {
  try {
    return await stat(path, { bigint: true });
  } catch (error) {
    if (!isMissing(error)) throw error;
    throw new KfdError('E_NOT_FOUND', `${path}: no such file or directory`, { cause: error });
  }
}

async function beside(child: string, { archive }: ManifestParent): Promise<string> {
  const path = join(dirname(child), archive);
  try {
    await stat(path);
    return path;
  } catch (error) {
    if (!isMissing(error)) throw error;
    throw new KfdError('E_IMAGE_MISSING', `${child}: its parent ${archive} is not beside it`, {
      cause: error,
      hint: 'name it with --parent; one that has a parent itself needs a further --parent for that',
    });
  }
}

function assertComplete({ contents: { manifest, path } }: CheckpointWithPlaces): void {
  if (manifest === undefined || !isDetached(manifest)) return;
  throw new KfdError('E_IMAGE_MISSING', `${path}: its GPU contents are in a folder of their own`, {
    hint: 'name its folder and those of its ancestors: "kfd-checkpoint restore --contents DIR --contents BEFORE"',
  });
}

/** Compares the roots of its pages files, which cover all contents. */
function assertParent(
  { files }: ManifestParent,
  { contents }: CheckpointWithPlaces,
  path: string,
): void {
  const roots = new Set(contents.manifest?.files.map(({ digest }) => digest.hex));
  const lacking = files.find(({ root }) => !roots.has(root));
  if (lacking === undefined) return;
  throw new KfdError(
    'E_IMAGE_MISSING',
    `${path}: is not the parent: it has no pages file ${lacking.root}, which ${lacking.name} refers to`,
    { hint: 'name the archive that was given to "kfd-checkpoint checkpoint --parent"' },
  );
}

/** A checkpoint without a parent. */
export interface Flattened {
  readonly manifest: Manifest;
  /** New pages files and manifest of its archive, by entry name. */
  readonly files: ReadonlyMap<string, Contents>;
}

/**
 * Writes the pages files of the first checkpoint of `chain` without references to a parent, in `folder`. Returns them
 * by entry name, with the new manifest. Files without a parent are written anew, too: frames that they refer to may
 * move to another file. Throws E_IMAGE_CORRUPT, E_IO, E_CANCELLED.
 */
export async function flattened(
  chain: Chain,
  flatten: FlattenPages,
  folder: string,
  signal?: AbortSignal,
): Promise<Flattened> {
  const manifest = chain[0]?.contents.manifest;
  if (!manifest?.parent) throw new KfdError('E_INTERNAL', 'flatten: there is no parent');
  const files = new Map<string, Contents>();
  const described = new Map<string, ManifestFile>();
  const buffers = groupedBy(manifest.buffers, (buffer) => buffer.pages_file);
  const siblings = chain.map(({ pages }) => [...pages.values()]);
  for (const { name } of manifest.files.filter((file) => pagesPattern.test(file.name))) {
    const path = join(folder, `flat-${name}`);
    const parts = partsOf(chain, name).map((part, i) => ({ ...part, siblings: siblings[i] ?? [] }));
    const made = await flatten(parts, path, signal);
    const fault = tableFault(buffers.get(name) ?? [], made);
    if (fault !== undefined) throw new KfdError('E_IMAGE_CORRUPT', `${name}: ${fault}`);
    files.set(imagePrefix + name, { path, offset: 0, size: made.fileBytes });
    const digest = { algo: 'xxh3-128', hex: made.root } as const;
    described.set(name, { name, size: made.fileBytes, digest });
  }
  const alone = {
    ...withoutParent(manifest),
    files: manifest.files.map((file) => described.get(file.name) ?? file),
  };
  files.set(imagePrefix + manifestName, Buffer.from(encodeManifest(alone)));
  return { manifest: alone, files };
}

/** A pages file, its parent, and so on. Each file names the root of its parent. */
function partsOf(chain: Chain, first: string): PagesPart[] {
  const parts: PagesPart[] = [];
  let name: string | undefined = first;
  for (const { contents, pages } of chain) {
    const part = name === undefined ? undefined : pages.get(name);
    if (part === undefined) {
      throw new KfdError('E_IMAGE_MISSING', `${contents.path}: ${name} is not in it`);
    }
    parts.push(part);
    const root = contents.manifest?.parent?.files.find((file) => file.name === name)?.root;
    if (root === undefined) break;
    const next = chain[parts.length]?.contents.manifest;
    name = next?.files.find(({ digest }) => digest.hex === root)?.name;
  }
  return parts;
}
