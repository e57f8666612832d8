/** Checks beyond the schema: the parts of a manifest must agree with each other. */

import {
  detachedFeature,
  pagesPattern,
  parentFeature,
  renderStatePattern,
  statePattern,
  storePattern,
  storesFeature,
} from './names.js';
import { isRenderFile, type Manifest, type ManifestBuffer, type ManifestShare } from './schema.js';

/** Contradictions in the document, each as "<path>: <reason>", `most` at most; empty when it is sound. */
export function inconsistencies(manifest: Manifest, most: number): string[] {
  const found: string[] = [];
  for (const check of checks) {
    for (const problem of check(manifest)) {
      if (found.push(problem) === most) return found;
    }
  }
  return found;
}

/** A check stops where its caller has enough: a hostile document has more problems than memory holds. */
type Check = (manifest: Manifest) => Iterable<string>;

const checks: readonly Check[] = [
  ({ gpus }) => ordinals('gpus', gpus),
  ({ processes }) => ordinals('processes', processes),
  deviceProblems,
  processProblems,
  bufferProblems,
  shareProblems,
  extFileProblems,
  fileProblems,
  transferProblems,
  parentProblems,
  detachedProblems,
  storesProblems,
];

function* ordinals(list: string, items: readonly { ordinal: number }[]): Iterable<string> {
  for (const [index, { ordinal }] of items.entries()) {
    if (ordinal !== index) yield `${list}.${index}.ordinal: is ${ordinal}, must be its position`;
  }
}

function* deviceProblems({ devices, gpus }: Manifest): Iterable<string> {
  const cards = new Set<number>();
  const nodes = new Set(devices.render.map(({ minor }) => minor));
  const seen = new Set<number>();
  const taken = new Set<number>();
  for (const [index, assigned] of (devices.assigned ?? []).entries()) {
    const { gpu, render_minor, card_minor: card } = assigned;
    const at = `devices.assigned.${index}`;
    if (gpu >= gpus.length) yield `${at}.gpu: there is no GPU ${gpu}`;
    if (seen.has(gpu)) yield `${at}.gpu: GPU ${gpu} is named twice`;
    if (!nodes.has(render_minor)) yield `${at}.render_minor: not among devices.render`;
    if (taken.has(render_minor)) yield `${at}.render_minor: ${render_minor} is taken twice`;
    if (card !== undefined) {
      if (gpus[gpu]?.card_minor === undefined) yield `${at}.card_minor: its GPU has none`;
      if (cards.has(card)) yield `${at}.card_minor: ${card} is taken twice`;
      cards.add(card);
    }
    seen.add(gpu);
    taken.add(render_minor);
  }
}

function* processProblems({ processes, gpus, files }: Manifest): Iterable<string> {
  const names = new Set(files.map((file) => file.name));
  for (const [index, process] of processes.entries()) {
    const at = `processes.${index}`;
    if (statePattern.exec(process.state_file)?.[1] !== String(index)) {
      yield `${at}.state_file: ${process.state_file} is not the state of process ${index}`;
    }
    if (!names.has(process.state_file)) yield `${at}.state_file: not among files`;
    if (new Set(process.gpus).size !== process.gpus.length)
      yield `${at}.gpus: a GPU is named twice`;
    for (const gpu of process.gpus) {
      if (gpu >= gpus.length) yield `${at}.gpus: there is no GPU ${gpu}`;
    }
  }
}

/** A BO of the image as one number: a BO's index has 32 bits, and there are few processes. */
function boKey({ process, bo_index: index }: { process: number; bo_index: number }): number {
  return process * 2 ** 32 + index;
}

function* bufferProblems({ buffers, processes, gpus, files }: Manifest): Iterable<string> {
  const names = new Set(files.map((file) => file.name));
  const ids = new Set<number>();
  const places = new Set<number>();
  for (const [index, buffer] of buffers.entries()) {
    const at = `buffers.${index}`;
    if (ids.has(buffer.id)) yield `${at}.id: ${buffer.id} is used twice`;
    ids.add(buffer.id);
    if (places.has(boKey(buffer))) yield `${at}.bo_index: the same BO twice`;
    places.add(boKey(buffer));
    yield* ownerProblems(at, buffer, processes);
    if (buffer.gpu >= gpus.length) yield `${at}.gpu: there is no GPU ${buffer.gpu}`;
    const [, process, gpu] = pagesPattern.exec(buffer.pages_file) ?? [];
    if (process !== String(buffer.process) || Number.parseInt(gpu ?? '', 16) !== buffer.gpu) {
      yield `${at}.pages_file: ${buffer.pages_file} belongs to another process or GPU`;
    }
    if (!names.has(buffer.pages_file)) yield `${at}.pages_file: not among files`;
  }
}

function* ownerProblems(
  at: string,
  { process, bo_index: index }: ManifestShare | ManifestBuffer,
  processes: Manifest['processes'],
): Iterable<string> {
  const owner = processes[process];
  if (owner === undefined) yield `${at}.process: there is no process ${process}`;
  else if (index >= owner.num_bos) {
    yield `${at}.bo_index: process ${process} has ${owner.num_bos} BOs`;
  }
}

function* shareProblems({ shares = [], buffers, processes }: Manifest): Iterable<string> {
  const places = new Set(buffers.map(boKey));
  const ids = new Set(buffers.map(({ id }) => id));
  for (const [index, share] of shares.entries()) {
    const at = `shares.${index}`;
    if (places.has(boKey(share))) yield `${at}.bo_index: the same BO twice`;
    places.add(boKey(share));
    yield* ownerProblems(at, share, processes);
    if (!ids.has(share.buffer)) yield `${at}.buffer: there is no buffer ${share.buffer}`;
  }
}

function* extFileProblems(manifest: Manifest): Iterable<string> {
  const { ext_files, processes, gpus, files, buffers } = manifest;
  const owners = new Map(buffers.map(({ id, process }) => [id, process]));
  const names = new Set(files.map((file) => file.name));
  const ids = new Set<number>();
  const states = new Set<string>();
  for (const [index, file] of ext_files.entries()) {
    const at = `ext_files.${index}`;
    if (ids.has(file.criu_id)) yield `${at}.criu_id: ${file.criu_id} is used twice`;
    ids.add(file.criu_id);
    if (file.process >= processes.length)
      yield `${at}.process: there is no process ${file.process}`;
    if (isRenderFile(file) && file.gpu === undefined) yield `${at}.gpu: missing for a render file`;
    if ((file.kind === 'dmabuf') !== (file.buffer !== undefined)) {
      yield `${at}.buffer: for a dma-buf, and for nothing else`;
    } else if (file.buffer !== undefined && owners.get(file.buffer) !== file.process) {
      yield `${at}.buffer: process ${file.process} has no buffer ${file.buffer}`;
    }
    if (file.gpu !== undefined && file.gpu >= gpus.length) {
      yield `${at}.gpu: there is no GPU ${file.gpu}`;
    }
    const { render_state: state } = file;
    if (state === undefined) continue;
    if (!isRenderFile(file) || !renderStatePattern.test(state)) {
      yield `${at}.render_state: ${state} is not the state of a render file`;
    }
    if (states.has(state)) yield `${at}.render_state: ${state} is used twice`;
    states.add(state);
    if (!names.has(state)) yield `${at}.render_state: not among files`;
  }
}

function* fileProblems({ files, processes, buffers, ext_files }: Manifest): Iterable<string> {
  const needed = new Set<string>();
  for (const process of processes) needed.add(process.state_file);
  for (const buffer of buffers) needed.add(buffer.pages_file);
  for (const { render_state: state } of ext_files) if (state !== undefined) needed.add(state);
  const seen = new Set<string>();
  for (const [index, file] of files.entries()) {
    const at = `files.${index}`;
    if (seen.has(file.name)) yield `${at}.name: ${file.name} is named twice`;
    seen.add(file.name);
    if (!needed.has(file.name) && !storePattern.test(file.name))
      yield `${at}.name: ${file.name} belongs to nothing`;
    const algo = pagesPattern.test(file.name) ? 'xxh3-128' : 'sha256';
    if (file.digest.algo !== algo) yield `${at}.digest.algo: must be ${algo}`;
  }
}

function* transferProblems({ transfers = [], files }: Manifest): Iterable<string> {
  const names = new Set(files.map((file) => file.name));
  const seen = new Set<string>();
  for (const [index, { file }] of transfers.entries()) {
    const at = `transfers.${index}.file`;
    if (seen.has(file)) yield `${at}: ${file} is named twice`;
    seen.add(file);
    if (!pagesPattern.test(file) || !names.has(file)) {
      yield `${at}: ${file} is no pages file of the image`;
    }
  }
}

function* parentProblems({ parent, features, files }: Manifest): Iterable<string> {
  if ((parent !== null) !== features.required.includes(parentFeature)) {
    yield `features.required: "${parentFeature}" and the parent do not agree`;
  }
  const names = new Set(files.map((file) => file.name));
  const seen = new Set<string>();
  for (const [index, { name }] of (parent?.files ?? []).entries()) {
    const at = `parent.files.${index}.name`;
    if (seen.has(name)) yield `${at}: ${name} is named twice`;
    seen.add(name);
    if (!pagesPattern.test(name) || !names.has(name)) {
      yield `${at}: ${name} is no pages file of the image`;
    }
  }
}

function* detachedProblems({ features, files }: Manifest): Iterable<string> {
  if (!features.required.includes(detachedFeature)) return;
  if (files.every(({ name }) => !pagesPattern.test(name))) {
    yield `features.required: "${detachedFeature}" without a pages file`;
  }
}

function* storesProblems({ features, files }: Manifest): Iterable<string> {
  const hasStore = files.some(({ name }) => storePattern.test(name));
  if (hasStore !== features.required.includes(storesFeature)) {
    yield `features.required: "${storesFeature}" and the files do not agree`;
  }
}
