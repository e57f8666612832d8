/** All checks before a task exists: the image, this host, the index of each file. */

import { lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { PagesListing } from '../../addon/images.js';
import { KfdError } from '../../errors.js';
import { type Choices, placeAsIs } from '../../gpu/compare.js';
import { type Host, type HostOptions, readHost } from '../../gpu/host.js';
import type { Mismatch } from '../../gpu/mismatch.js';
import { sdmaRisks } from '../../gpu/sdma-risks.js';
import { wantsOf } from '../../gpu/sdma-wants.js';
import { placeWhenFree } from '../../gpu/wait-vram.js';
import { contentsFault, groupedBy } from '../../manifest/buffers.js';
import { foldersFor, needsFolders, rootsOf, supplied } from '../../manifest/elsewhere.js';
import { imageState } from '../../manifest/image.js';
import { pagesFileName, pagesPattern, stateFileName } from '../../manifest/names.js';
import {
  type Manifest,
  type ManifestBuffer,
  type ManifestFile,
  manifestLimits,
} from '../../manifest/schema.js';
import { native } from '../../native.js';
import type { OwnFolder } from '../../os/own-folder.js';
import { type BoPlace, waitingCircle } from '../buffers/places.js';
import { checkSiblings } from '../buffers/siblings.js';
import { type PagesPaths, pathsOfPages } from './pages-paths.js';
import { asFile, corrupt, type PreparedProcess, prepareAll } from './prepare.js';
import { pairsWithRoom, type SlotPlan } from './slots.js';

export interface Preflight extends SlotPlan {
  readonly manifest: Manifest;
  readonly host: Host;
  /** Differences that the operator decided to ignore. */
  readonly ignored: readonly Mismatch[];
  /** What may stop the restore nevertheless. */
  readonly risks: readonly Mismatch[];
  readonly processes: readonly PreparedProcess[];
  /** Of each pages file and of its ancestors, by its name. */
  readonly pages: ReadonlyMap<string, PagesPaths>;
  /** Paths in `pages` lead through these, as long as somebody keeps them and does not close them. */
  readonly folders: readonly OwnFolder[];
}

/** The folders that somebody has named for the contents with these roots. */
export type FindContents = (roots: readonly string[]) => Promise<readonly OwnFolder[]>;

/**
 * Checks the consistency of the image in `directory`, and whether it fits this host. Throws E_IMAGE_*, E_SDMA_SLOT, or
 * the code of the first mismatch; the message lists all mismatches. `undefined`: the image has no GPU state.
 * `hostOptions`: for a host other than this one. `find`: its errors are those of the folders.
 */
export async function preflight(
  directory: string,
  choices: Choices,
  hostOptions?: HostOptions,
  find: FindContents = async () => [],
): Promise<Preflight | undefined> {
  const image = await imageState(directory);
  if (image.state === 'none') return undefined;
  if (image.state === 'unsealed') {
    throw new KfdError(
      'E_IMAGE_UNSEALED',
      `image: ${image.files.length} GPU file(s) but no sealed manifest: the checkpoint was never finished`,
      { hint: 'take the checkpoint again', details: { files: image.files } },
    );
  }
  const { manifest } = image;
  const given = needsFolders(manifest) ? await find(rootsOf(manifest)) : [];
  const options = hostOptions ?? optionsHere();
  const { own, parents } = foldersFor(manifest, given);
  const here = supplied(manifest, { own, parents });
  const { host, placement } = await placeWhenFree(
    () => readHost(options),
    (now) => placeAsIs(here, now, choices),
  );
  const { pairs, mismatches, ignored } = placement;
  const [first] = mismatches;
  if (first !== undefined) {
    throw new KfdError(first.code, mismatches.map((mismatch) => mismatch.message).join('; '), {
      hint: first.hint,
      details: { mismatches },
    });
  }
  if (own !== undefined) await assertNoPages(directory);
  const contents = own?.path ?? directory;
  const files = await checkFiles(manifest, directory, contents);
  checkSiblings(contents, files);
  const pages = await pathsOfPages(files, manifest.parent, parents);
  const processes = await prepareAll(directory, manifest);
  checkOrder(manifest, processes);
  const objects = new Map(processes.map((one) => [one.ordinal, one.objects]));
  const wants = wantsOf(manifest, ({ ordinal }) => objects.get(ordinal));
  const slots = { host, pairs, wants, root: options.root ?? '/' };
  const isShared = pairs.some(({ present }) => present.sdmaUsers.length > 0);
  const risks = isShared ? sdmaRisks(here, await pairsWithRoom(slots), wants) : [];
  return { ...slots, manifest, ignored, risks, processes, pages, folders: given };
}

/** Checks sizes, and the indexes of pages files. Returns these. */
async function checkFiles(
  manifest: Manifest,
  directory: string,
  contents: string,
): Promise<CheckedPages[]> {
  const pages: CheckedPages[] = [];
  const buffers = groupedBy(manifest.buffers, (buffer) => buffer.pages_file);
  for (const file of manifest.files) {
    const { name } = file;
    const isPages = pagesPattern.test(name);
    const path = join(isPages ? contents : directory, name);
    await checkSize(path, file, isPages && contents !== directory ? 'its folder' : 'the image');
    if (!isPages) continue;
    pages.push({ name, path, summary: checkPages(path, file, buffers.get(name) ?? []) });
  }
  return pages;
}

interface CheckedPages {
  readonly name: string;
  readonly path: string;
  readonly summary: PagesListing;
}

/** Two files of one name: readers could take either. Throws E_IMAGE_CORRUPT. */
async function assertNoPages(directory: string): Promise<void> {
  const name = (await readdir(directory)).find((one) => pagesPattern.test(one));
  if (name === undefined) return;
  throw new KfdError('E_IMAGE_CORRUPT', `${name}: in the image, whose contents are elsewhere`, {
    hint: 'use another copy of the archive',
  });
}

/**
 * Refuses images whose processes would wait for each other's buffers, or for their own, until CRIU gives up. No
 * checkpoint writes such an image. Throws E_IMAGE_CORRUPT.
 */
export function checkOrder(
  { buffers, shares = [] }: Manifest,
  processes: readonly Pick<PreparedProcess, 'ordinal' | 'kfdBos'>[],
): void {
  const kfdBos = new Map(processes.map((process) => [process.ordinal, process.kfdBos]));
  const owners = new Map(buffers.map((buffer) => [buffer.id, buffer]));
  const places = shares.flatMap(({ process, bo_index, buffer }) => {
    const owner = owners.get(buffer);
    return owner ? [{ process, bo_index, owner }] : [];
  });
  const ofRenderFile = ({ process, bo_index: index }: BoPlace) =>
    index >= (kfdBos.get(process) ?? Number.POSITIVE_INFINITY);
  const alone = places.find(
    (share) =>
      share.process === share.owner.process && !ofRenderFile(share) && ofRenderFile(share.owner),
  );
  const circle = alone ? [alone.process] : waitingCircle(places, ofRenderFile);
  if (circle === undefined) return;
  const names = circle.map((ordinal) => stateFileName(ordinal)).join(', ');
  throw new KfdError('E_IMAGE_CORRUPT', `${names}: share buffers that none could make first`);
}

function optionsHere(): HostOptions {
  const xsaveBytes = native().xsaveBytes();
  try {
    const { major, minor } = native().kfdVersion();
    return { xsaveBytes, kfdVersion: `${major}.${minor}` };
  } catch {
    // Without KFD here: the comparison reports it with the other reasons.
    return { xsaveBytes };
  }
}

async function checkSize(path: string, file: ManifestFile, where: string): Promise<void> {
  const found = await lstat(path).catch(() => undefined);
  if (found === undefined) {
    throw new KfdError('E_IMAGE_MISSING', `${file.name}: not in ${where}`, {
      hint: 'use another copy of the archive',
    });
  }
  if (!found.isFile()) throw corrupt(file, 'not a regular file');
  const { size } = found;
  if (size !== file.size) throw corrupt(file, `is ${size} bytes, was ${file.size} when sealed`);
  if (!pagesPattern.test(file.name) && size > manifestLimits.stateBytes) {
    throw corrupt(file, `larger than ${manifestLimits.stateBytes} bytes`);
  }
}

/** Checks the index only. Frames are checked during the upload. */
function checkPages(
  path: string,
  file: ManifestFile,
  buffers: readonly ManifestBuffer[],
): PagesListing {
  const listing = asFile(file, () => native().listPages(path));
  if (listing.root !== file.digest.hex) {
    throw corrupt(file, 'its index does not match the digest in the manifest');
  }
  const name = pagesFileName(listing.process, listing.gpu);
  if (name !== file.name) throw corrupt(file, `belongs to ${name}`);
  const fault = contentsFault(file.name, buffers, listing);
  if (fault !== undefined) throw corrupt(file, fault);
  return listing;
}
