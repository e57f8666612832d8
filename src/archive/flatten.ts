/** Ending a chain of checkpoints: pages files get the contents that they refer to in a parent. */

import { stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { ChainPart, FilePart } from '../addon.js';
import { isMissing, KfdError } from '../errors.js';
import { encodeManifest } from '../manifest/codec.js';
import { manifestName, pagesPattern, parentFeature } from '../manifest/names.js';
import type { Manifest, ManifestFile, ManifestParent } from '../manifest/schema.js';
import { imagePrefix } from './names.js';
import { type CheckpointWithPages, readWithPages } from './pages-parts.js';
import type { Contents } from './rewrite.js';
import type { WalkOptions } from './walk.js';

/**
 * Writes the new pages file `target` from `chain`: a file, its parent, its grandparent and so on. Sizes are bytes. All
 * targets belong to one image: a frame that an earlier target has is not stored again.
 */
export type FlattenPages = (
  chain: readonly ChainPart[],
  target: string,
  signal: AbortSignal | undefined,
) => Promise<{ readonly fileBytes: number; readonly root: string }>;

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
 * lies beside the archive that names it. Throws E_IMAGE_MISSING for a missing or wrong ancestor, E_USAGE for unused
 * elements, and the errors of `readContents`.
 */
export async function findChain(
  path: string,
  parents: readonly string[],
  options: WalkOptions,
  folder: string,
): Promise<Chain> {
  const chain: CheckpointWithPages[] = [];
  const left = [...parents];
  for (let at = path; ; ) {
    const one = await readWithPages(at, options, folder, `${chain.length}-`);
    const child = chain.at(-1)?.contents.manifest?.parent;
    if (child) assertParent(child, one, at);
    chain.push(one);
    const parent = one.contents.manifest?.parent;
    if (!parent) break;
    if (chain.length > maxChain) {
      throw new KfdError('E_IMAGE_CORRUPT', `${path}: more than ${maxChain} ancestors`);
    }
    at = left.shift() ?? (await beside(at, parent));
  }
  const [extra] = left;
  if (extra !== undefined) {
    throw new KfdError('E_USAGE', `${extra}: ${path} needs ${chain.length - 1} parents, not more`);
  }
  return chain;
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

/** Compares the roots of its pages files, which cover all contents. */
function assertParent(
  { files }: ManifestParent,
  { contents }: CheckpointWithPages,
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
  const siblings = chain.map(({ pages }) => siblingsOf(pages));
  for (const { name } of manifest.files.filter((file) => pagesPattern.test(file.name))) {
    const path = join(folder, `flat-${name}`);
    const parts = partsOf(chain, name).map((part, i) => ({ ...part, siblings: siblings[i] ?? [] }));
    const { fileBytes, root } = await flatten(parts, path, signal);
    files.set(imagePrefix + name, { path, offset: 0, size: fileBytes });
    described.set(name, { name, size: fileBytes, digest: { algo: 'xxh3-128', hex: root } });
  }
  const alone = {
    ...withoutParent(manifest),
    files: manifest.files.map((file) => described.get(file.name) ?? file),
  };
  files.set(imagePrefix + manifestName, Buffer.from(encodeManifest(alone)));
  return { manifest: alone, files };
}

function siblingsOf(pages: CheckpointWithPages['pages']): ChainPart['siblings'] {
  return [...pages].map(([name, part]) => {
    const [, process = '', gpu = ''] = pagesPattern.exec(name) ?? [];
    return { ...part, process: Number(process), gpu: Number.parseInt(gpu, 16) };
  });
}

/** A pages file, its parent, and so on. Each file names the root of its parent. */
function partsOf(chain: Chain, first: string): FilePart[] {
  const parts: FilePart[] = [];
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
