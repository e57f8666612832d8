/** The recorded processes of an image, checked one after the other, so that one state at a time is in memory. */

import { createHash } from 'node:crypto';
import { join } from 'node:path';
import type { BoColumns, ProcessFacts } from '../../addon/images.js';
import { KfdError } from '../../errors.js';
import { type KfdObjects, kfdObjectsOf } from '../../gpu/kfd-objects.js';
import { boFault, buffersOfBos, groupedBy, joined } from '../../manifest/buffers.js';
import { renderStateFileName, stateFileName } from '../../manifest/names.js';
import {
  type Manifest,
  type ManifestExtFile,
  type ManifestFile,
  type ManifestProcess,
  manifestLimits,
} from '../../manifest/schema.js';
import { fromNative, native } from '../../native.js';
import { readBounded } from '../../os/files.js';

/** One recorded process, checked, for the plugin. */
export interface PreparedProcess {
  readonly ordinal: number;
  readonly summary: ProcessFacts;
  /** Undefined in a layout that is not known, or where nobody asks for it. */
  readonly objects?: KfdObjects | undefined;
  /** How many BOs are in its KFD state. They come first. */
  readonly kfdBos: number;
  /** In the order of their numbers. */
  readonly renderStates: readonly PreparedRender[];
  /** Its state file, with the recorded digest. Throws E_IMAGE_CORRUPT for another one, and Node's error. */
  readonly readState: () => Promise<Buffer>;
}

/** The contents of one of its render files. */
export interface PreparedRender {
  readonly file: ManifestExtFile;
  readonly gpuId: number;
  /** Index of its first BO among the BOs of the process, and how many it has. */
  readonly firstBo: number;
  readonly bos: number;
  /** As of PreparedProcess. */
  readonly readState: () => Promise<Buffer>;
}

/**
 * Checks all processes of the image in `directory`. Each BO with contents must have its buffer: without an upload its
 * contents would be zeros. Throws E_IMAGE_CORRUPT, E_UNSUPPORTED_STATE, and Node's error.
 */
export async function prepareAll(
  directory: string,
  manifest: Manifest,
): Promise<readonly PreparedProcess[]> {
  const files = new Map(manifest.files.map((file) => [file.name, file]));
  const renderFiles = groupedBy(manifest.ext_files, ({ process }) => process);
  const buffers = buffersOfBos(manifest);
  const shared = groupedBy(manifest.shares ?? [], ({ process }) => process);
  const prepared: PreparedProcess[] = [];
  for (const process of manifest.processes) {
    const image = { directory, files, gpus: manifest.gpus };
    const { ordinal } = process;
    const state = await readChecked(image, process.state_file);
    const { bos, ...summary } = asFile(state.file, () => native().stateFacts(state.bytes));
    assertOwn(state.file, stateFileName(summary.ordinal));
    const first = bos.sizes.length;
    if ((shared.get(ordinal) ?? []).some(({ bo_index: index }) => index < first)) {
      asFile(state.file, () => native().checkPrivateData(state.bytes));
    }
    const objects = process.sdma_gpus?.length === 0 ? undefined : kfdObjectsOf(state.bytes);
    const held = await readRenderStates(image, summary, renderFiles.get(ordinal) ?? []);
    assertBos(process, joined([bos, ...held.map((one) => one.bos)]), buffers.get(ordinal));
    let next = first;
    const renderStates = held.map(({ file, gpuId, bos: { sizes }, readState }) => {
      const firstBo = next;
      next += sizes.length;
      return { file, gpuId, firstBo, bos: sizes.length, readState };
    });
    const readState = readerOf(image, process.state_file);
    prepared.push({ ordinal, summary, objects, kfdBos: first, renderStates, readState });
  }
  return prepared;
}

interface Image {
  readonly directory: string;
  readonly files: ReadonlyMap<string, ManifestFile>;
  readonly gpus: Manifest['gpus'];
}

/** In the order of their numbers. Throws E_IMAGE_CORRUPT when one is on a GPU that its process does not know. */
async function readRenderStates(
  image: Image,
  { ordinal, devices }: ProcessFacts,
  extFiles: readonly ManifestExtFile[],
) {
  const held = [];
  for (const file of extFiles) {
    const name = file.render_state;
    if (name === undefined) continue;
    const { bytes, file: known } = await readChecked(image, name);
    const facts = asFile(known, () => native().renderStateFacts(bytes));
    assertOwn(known, renderStateFileName(facts.ordinal));
    const actual = file.gpu === undefined ? undefined : image.gpus[file.gpu]?.gpu_id;
    const gpuId = devices.find(({ actualGpuId }) => actualGpuId === actual)?.userGpuId;
    if (gpuId === undefined) {
      throw new KfdError('E_IMAGE_CORRUPT', `${name}: process ${ordinal} has no GPU ${file.gpu}`);
    }
    const readState = readerOf(image, name);
    held.push({ file, gpuId, number: facts.ordinal, bos: facts.bos, readState });
  }
  return held.sort((a, b) => a.number - b.number);
}

function assertBos(
  { ordinal, num_bos: expected }: ManifestProcess,
  bos: BoColumns,
  buffers: Parameters<typeof boFault>[1] = new Map(),
): void {
  const is = bos.sizes.length;
  const count =
    is === expected ? undefined : `number of BOs is ${is}, the manifest says ${expected}`;
  const fault = boFault(bos, buffers) ?? count;
  if (fault === undefined) return;
  throw new KfdError('E_IMAGE_CORRUPT', `${stateFileName(ordinal)}: ${fault}`);
}

/** A function of its own: a closure beside the bytes of a state would keep them. */
function readerOf(image: Image, name: string): () => Promise<Buffer> {
  return async () => (await readChecked(image, name)).bytes;
}

async function readChecked(
  { directory, files }: Image,
  name: string,
): Promise<{ readonly file: ManifestFile; readonly bytes: Buffer }> {
  const file = files.get(name);
  if (file === undefined) throw new KfdError('E_IMAGE_CORRUPT', `${name}: not among files`);
  const bytes = await readBounded(
    join(directory, name),
    manifestLimits.stateBytes,
    'E_IMAGE_CORRUPT',
  );
  if (createHash('sha256').update(bytes).digest('hex') !== file.digest.hex) {
    throw corrupt(file, 'does not match its digest');
  }
  return { file, bytes };
}

function assertOwn(file: ManifestFile, name: string): void {
  if (file.name !== name) throw corrupt(file, `belongs to ${name}`);
}

/** The result of reading `file`. Throws errors of the addon with the name of the file. */
export function asFile<T>({ name }: ManifestFile, read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw fromNative(error, name);
  }
}

export function corrupt({ name }: ManifestFile, reason: string): KfdError {
  return new KfdError('E_IMAGE_CORRUPT', `${name}: ${reason}`, {
    hint: 'the image was damaged or changed after the checkpoint; use another copy',
  });
}
