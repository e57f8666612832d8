/** All checks before a task exists: the image, this host, the index of each file. */

import { createHash } from 'node:crypto';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { KfdError } from '../../errors.js';
import { type Choices, placeAsIs } from '../../gpu/compare.js';
import { type Host, type HostOptions, readHost } from '../../gpu/host.js';
import type { Mismatch } from '../../gpu/mismatch.js';
import type { GpuPair } from '../../gpu/pair.js';
import { placeWhenFree } from '../../gpu/wait-vram.js';
import { imageState } from '../../manifest/image.js';
import {
  renderStateFileName,
  renderStatePattern,
  stateFileName,
  statePattern,
} from '../../manifest/names.js';
import {
  type Manifest,
  type ManifestExtFile,
  type ManifestFile,
  type ManifestShare,
  manifestLimits,
} from '../../manifest/schema.js';
import {
  fromNative,
  native,
  type PagesSummary,
  type RenderStateSummary,
  type StateSummary,
} from '../../native.js';
import { readBounded } from '../../os/files.js';
import { type BoPlace, waitingCircle } from '../buffers/places.js';
import { kfdBos, withRenderBos } from '../buffers/process-bos.js';
import { checkSiblings, type NamedPages } from '../buffers/siblings.js';
import { hasContents } from '../contents/drain.js';

/** One recorded process, checked, for the plugin. */
export interface PreparedProcess {
  readonly ordinal: number;
  readonly state: Buffer;
  /** With the BOs of its render files. */
  readonly summary: StateSummary;
  /** In the order of their numbers. */
  readonly renderStates: readonly PreparedRender[];
}

/** The contents of one of its render files. */
export interface PreparedRender {
  readonly file: ManifestExtFile;
  readonly gpuId: number;
  readonly state: Buffer;
  /** Index of its first BO among the BOs of the process, and how many it has. */
  readonly firstBo: number;
  readonly bos: number;
}

export interface Preflight {
  readonly manifest: Manifest;
  readonly host: Host;
  readonly pairs: readonly GpuPair[];
  /** Differences that the operator decided to ignore. */
  readonly ignored: readonly Mismatch[];
  /** What may stop the restore nevertheless. */
  readonly risks: readonly Mismatch[];
  readonly processes: readonly PreparedProcess[];
}

/**
 * Checks the consistency of the image in `directory`, and whether it fits this host. Throws E_IMAGE_* or the code of
 * the first mismatch; the message lists all mismatches. `undefined`: the image has no GPU state. `hostOptions`: for a
 * host other than this one.
 */
export async function preflight(
  directory: string,
  choices: Choices,
  hostOptions?: HostOptions,
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
  const options = hostOptions ?? optionsHere();
  const { host, placement } = await placeWhenFree(
    () => readHost(options),
    (now) => placeAsIs(manifest, now, choices),
  );
  const { pairs, mismatches, ignored, risks } = placement;
  const [first] = mismatches;
  if (first !== undefined) {
    throw new KfdError(first.code, mismatches.map((mismatch) => mismatch.message).join('; '), {
      hint: first.hint,
      details: { mismatches },
    });
  }
  const pages: NamedPages[] = [];
  const states: ReadState<StateSummary>[] = [];
  const renderStates = new Map<string, ReadState<RenderStateSummary>>();
  for (const file of manifest.files) {
    const path = join(directory, file.name);
    await checkSize(path, file);
    if (statePattern.test(file.name)) {
      states.push(await readState(path, file, native().stateSummary, stateFileName));
    } else if (renderStatePattern.test(file.name)) {
      const read = readState(path, file, native().renderStateSummary, renderStateFileName);
      renderStates.set(file.name, await read);
    } else pages.push({ name: file.name, summary: checkPages(path, file) });
  }
  checkSiblings(directory, pages);
  const processes = states.map((state) => prepare(manifest, state, renderStates));
  for (const process of processes) {
    checkBuffers(manifest, process);
    checkExchange(manifest, process);
  }
  checkOrder(manifest, processes);
  return { manifest, host, pairs, ignored, risks, processes };
}

/** Without an upload a BO's contents would be zeros. Throws E_IMAGE_CORRUPT. */
export function checkBuffers(
  { buffers, shares = [] }: Manifest,
  { ordinal, summary }: PreparedProcess,
): void {
  const own = buffers.map((buffer) => ({ ...buffer, buffer }));
  const ofOthers = shares.map((share) => ({
    ...share,
    buffer: buffers.find(({ id }) => id === share.buffer),
  }));
  const recorded = new Map(
    [...own, ...ofOthers]
      .filter(({ process }) => process === ordinal)
      .map(({ bo_index, buffer }) => [bo_index, buffer]),
  );
  const damaged = (what: string) =>
    new KfdError('E_IMAGE_CORRUPT', `${stateFileName(ordinal)}: ${what} in the manifest`);
  summary.bos.forEach(({ kind, size }, index) => {
    if (!hasContents(kind)) return;
    const buffer = recorded.get(index);
    if (buffer?.kind !== kind || buffer.size !== size) throw damaged(`BO ${index} is another`);
    recorded.delete(index);
  });
  if (recorded.size > 0) throw damaged('fewer BOs with contents than');
}

/**
 * A restore exchanges shared BOs of KFD by means of their private data. Throws E_UNSUPPORTED_STATE when its layout is
 * unknown.
 */
export function checkExchange({ shares = [] }: Manifest, process: PreparedProcess): void {
  const isExchanged = (share: ManifestShare) =>
    share.process === process.ordinal && share.bo_index < kfdBos(process);
  if (!shares.some(isExchanged)) return;
  try {
    native().checkPrivateData(process.state);
  } catch (error) {
    throw fromNative(error, stateFileName(process.ordinal));
  }
}

/**
 * Refuses images whose processes would wait for each other's buffers, or for their own, until CRIU gives up. No
 * checkpoint writes such an image. Throws E_IMAGE_CORRUPT.
 */
export function checkOrder(
  { buffers, shares = [] }: Manifest,
  processes: readonly PreparedProcess[],
): void {
  const owners = new Map(buffers.map((buffer) => [buffer.id, buffer]));
  const places = shares.flatMap(({ process, bo_index, buffer }) => {
    const owner = owners.get(buffer);
    return owner ? [{ process, bo_index, owner }] : [];
  });
  const ofRenderFile = ({ process, bo_index: index }: BoPlace) => {
    const prepared = processes.find(({ ordinal }) => ordinal === process);
    return prepared !== undefined && index >= kfdBos(prepared);
  };
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

async function checkSize(path: string, file: ManifestFile): Promise<void> {
  const size = await stat(path).then(
    (info) => info.size,
    () => undefined,
  );
  if (size === undefined) {
    throw new KfdError('E_IMAGE_MISSING', `${file.name}: not in the image`, {
      hint: 'use another copy of the archive',
    });
  }
  if (size !== file.size) throw corrupt(file, `is ${size} bytes, was ${file.size} when sealed`);
}

interface ReadState<Summary> {
  readonly state: Buffer;
  readonly summary: Summary;
}

async function readState<Summary extends { readonly ordinal: number }>(
  path: string,
  file: ManifestFile,
  summarize: (state: Buffer) => Summary,
  nameOf: (ordinal: number) => string,
): Promise<ReadState<Summary>> {
  const state = await readBounded(path, manifestLimits.stateBytes, 'E_IMAGE_CORRUPT');
  if (createHash('sha256').update(state).digest('hex') !== file.digest.hex) {
    throw corrupt(file, 'does not match its digest');
  }
  const summary = fromFile(file, () => summarize(state));
  if (nameOf(summary.ordinal) !== file.name) {
    throw corrupt(file, `belongs to ${nameOf(summary.ordinal)}`);
  }
  return { state, summary };
}

/** Throws E_IMAGE_CORRUPT when a render file is on a GPU that its process does not know. */
function prepare(
  { ext_files: extFiles, gpus }: Manifest,
  { state, summary }: ReadState<StateSummary>,
  states: ReadonlyMap<string, ReadState<RenderStateSummary>>,
): PreparedProcess {
  const files = extFiles
    .flatMap((file) => {
      const read = file.process === summary.ordinal && states.get(file.render_state ?? '');
      return read ? [{ file, ...read }] : [];
    })
    .sort((a, b) => a.summary.ordinal - b.summary.ordinal);
  let whole = summary;
  const renderStates = files.map(({ file, state: held, summary: heldSummary }): PreparedRender => {
    const actual = gpus.find(({ ordinal }) => ordinal === file.gpu)?.gpu_id;
    const gpuId = summary.devices.find(({ actualGpuId }) => actualGpuId === actual)?.userGpuId;
    if (gpuId === undefined) {
      const reason = `${file.render_state}: process ${summary.ordinal} has no GPU ${file.gpu}`;
      throw new KfdError('E_IMAGE_CORRUPT', reason);
    }
    const firstBo = whole.bos.length;
    whole = withRenderBos(whole, [{ gpuId, summary: heldSummary }]);
    return { file, gpuId, state: held, firstBo, bos: heldSummary.bos.length };
  });
  return { ordinal: summary.ordinal, state, summary: whole, renderStates };
}

/** Checks the index only. Frames are checked during the upload. */
function checkPages(path: string, file: ManifestFile): PagesSummary {
  const summary = fromFile(file, () => native().listPages(path));
  if (summary.root !== file.digest.hex) {
    throw corrupt(file, 'its index does not match the digest in the manifest');
  }
  return summary;
}

function fromFile<T>(file: ManifestFile, read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw fromNative(error, file.name);
  }
}

function corrupt(file: ManifestFile, reason: string): KfdError {
  return new KfdError('E_IMAGE_CORRUPT', `${file.name}: ${reason}`, {
    hint: 'the image was damaged or changed after the checkpoint; use another copy',
  });
}
