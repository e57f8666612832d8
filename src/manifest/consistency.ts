/** Checks beyond the schema: the parts of a manifest must agree with each other. */

import { pagesPattern, parentFeature, renderStatePattern, statePattern } from './names.js';
import { isRenderFile, type Manifest } from './schema.js';

/** Every contradiction in the document, each as "<path>: <reason>"; empty when it is sound. */
export function inconsistencies(manifest: Manifest): string[] {
  return [
    ...ordinals('gpus', manifest.gpus),
    ...ordinals('processes', manifest.processes),
    ...deviceProblems(manifest),
    ...processProblems(manifest),
    ...bufferProblems(manifest),
    ...shareProblems(manifest),
    ...extFileProblems(manifest),
    ...fileProblems(manifest),
    ...transferProblems(manifest),
    ...parentProblems(manifest),
  ];
}

function ordinals(list: string, items: readonly { ordinal: number }[]): string[] {
  return items.flatMap((item, index) =>
    item.ordinal === index
      ? []
      : [`${list}.${index}.ordinal: is ${item.ordinal}, must be its position`],
  );
}

function deviceProblems({ devices, gpus }: Manifest): string[] {
  const cards = new Set<number>();
  const nodes = new Set(devices.render.map(({ minor }) => minor));
  const seen = new Set<number>();
  const taken = new Set<number>();
  return (devices.assigned ?? []).flatMap(({ gpu, render_minor, card_minor: card }, index) => {
    const at = `devices.assigned.${index}`;
    const problems: string[] = [];
    if (gpu >= gpus.length) problems.push(`${at}.gpu: there is no GPU ${gpu}`);
    if (seen.has(gpu)) problems.push(`${at}.gpu: GPU ${gpu} is named twice`);
    if (!nodes.has(render_minor)) problems.push(`${at}.render_minor: not among devices.render`);
    if (taken.has(render_minor))
      problems.push(`${at}.render_minor: ${render_minor} is taken twice`);
    if (card !== undefined) {
      if (gpus[gpu]?.card_minor === undefined) problems.push(`${at}.card_minor: its GPU has none`);
      if (cards.has(card)) problems.push(`${at}.card_minor: ${card} is taken twice`);
      cards.add(card);
    }
    seen.add(gpu);
    taken.add(render_minor);
    return problems;
  });
}

function processProblems({ processes, gpus, files }: Manifest): string[] {
  const names = new Set(files.map((file) => file.name));
  const problems: string[] = [];
  processes.forEach((process, index) => {
    const at = `processes.${index}`;
    if (statePattern.exec(process.state_file)?.[1] !== String(index)) {
      problems.push(`${at}.state_file: ${process.state_file} is not the state of process ${index}`);
    }
    if (!names.has(process.state_file)) problems.push(`${at}.state_file: not among files`);
    if (new Set(process.gpus).size !== process.gpus.length) {
      problems.push(`${at}.gpus: a GPU is named twice`);
    }
    for (const gpu of process.gpus) {
      if (gpu >= gpus.length) problems.push(`${at}.gpus: there is no GPU ${gpu}`);
    }
  });
  return problems;
}

function bufferProblems({ buffers, processes, gpus, files }: Manifest): string[] {
  const names = new Set(files.map((file) => file.name));
  const ids = new Set<number>();
  const places = new Set<string>();
  const problems: string[] = [];
  buffers.forEach((buffer, index) => {
    const at = `buffers.${index}`;
    if (ids.has(buffer.id)) problems.push(`${at}.id: ${buffer.id} is used twice`);
    ids.add(buffer.id);
    const place = `${buffer.process}/${buffer.bo_index}`;
    if (places.has(place)) problems.push(`${at}.bo_index: the same BO twice`);
    places.add(place);
    const owner = processes[buffer.process];
    if (owner === undefined) {
      problems.push(`${at}.process: there is no process ${buffer.process}`);
    } else if (buffer.bo_index >= owner.num_bos) {
      problems.push(`${at}.bo_index: process ${buffer.process} has ${owner.num_bos} BOs`);
    }
    if (buffer.gpu >= gpus.length) problems.push(`${at}.gpu: there is no GPU ${buffer.gpu}`);
    const [, process, gpu] = pagesPattern.exec(buffer.pages_file) ?? [];
    if (process !== String(buffer.process) || Number.parseInt(gpu ?? '', 16) !== buffer.gpu) {
      problems.push(`${at}.pages_file: ${buffer.pages_file} belongs to another process or GPU`);
    }
    if (!names.has(buffer.pages_file)) problems.push(`${at}.pages_file: not among files`);
  });
  return problems;
}

function shareProblems({ shares = [], buffers, processes }: Manifest): string[] {
  const places = new Set(buffers.map(({ process, bo_index }) => `${process}/${bo_index}`));
  const ids = new Set(buffers.map(({ id }) => id));
  const problems: string[] = [];
  shares.forEach((share, index) => {
    const at = `shares.${index}`;
    const place = `${share.process}/${share.bo_index}`;
    if (places.has(place)) problems.push(`${at}.bo_index: the same BO twice`);
    places.add(place);
    const owner = processes[share.process];
    if (owner === undefined) {
      problems.push(`${at}.process: there is no process ${share.process}`);
    } else if (share.bo_index >= owner.num_bos) {
      problems.push(`${at}.bo_index: process ${share.process} has ${owner.num_bos} BOs`);
    }
    if (!ids.has(share.buffer)) problems.push(`${at}.buffer: there is no buffer ${share.buffer}`);
  });
  return problems;
}

function extFileProblems(manifest: Manifest): string[] {
  const { ext_files, processes, gpus, files, buffers } = manifest;
  const owners = new Map(buffers.map(({ id, process }) => [id, process]));
  const names = new Set(files.map((file) => file.name));
  const ids = new Set<number>();
  const states = new Set<string>();
  const problems: string[] = [];
  ext_files.forEach((file, index) => {
    const at = `ext_files.${index}`;
    if (ids.has(file.criu_id)) problems.push(`${at}.criu_id: ${file.criu_id} is used twice`);
    ids.add(file.criu_id);
    if (file.process >= processes.length) {
      problems.push(`${at}.process: there is no process ${file.process}`);
    }
    if (isRenderFile(file) && file.gpu === undefined) {
      problems.push(`${at}.gpu: missing for a render file`);
    }
    if ((file.kind === 'dmabuf') !== (file.buffer !== undefined)) {
      problems.push(`${at}.buffer: for a dma-buf, and for nothing else`);
    } else if (file.buffer !== undefined && owners.get(file.buffer) !== file.process) {
      problems.push(`${at}.buffer: process ${file.process} has no buffer ${file.buffer}`);
    }
    if (file.gpu !== undefined && file.gpu >= gpus.length) {
      problems.push(`${at}.gpu: there is no GPU ${file.gpu}`);
    }
    const { render_state: state } = file;
    if (state === undefined) return;
    if (!isRenderFile(file) || !renderStatePattern.test(state)) {
      problems.push(`${at}.render_state: ${state} is not the state of a render file`);
    }
    if (states.has(state)) problems.push(`${at}.render_state: ${state} is used twice`);
    states.add(state);
    if (!names.has(state)) problems.push(`${at}.render_state: not among files`);
  });
  return problems;
}

function fileProblems({ files, processes, buffers, ext_files }: Manifest): string[] {
  const needed = new Set<string>();
  for (const process of processes) needed.add(process.state_file);
  for (const buffer of buffers) needed.add(buffer.pages_file);
  for (const { render_state: state } of ext_files) if (state !== undefined) needed.add(state);
  const seen = new Set<string>();
  const problems: string[] = [];
  files.forEach((file, index) => {
    const at = `files.${index}`;
    if (seen.has(file.name)) problems.push(`${at}.name: ${file.name} is named twice`);
    seen.add(file.name);
    if (!needed.has(file.name)) problems.push(`${at}.name: ${file.name} belongs to nothing`);
    const algo = pagesPattern.test(file.name) ? 'xxh3-128' : 'sha256';
    if (file.digest.algo !== algo) problems.push(`${at}.digest.algo: must be ${algo}`);
  });
  return problems;
}

function transferProblems({ transfers = [], files }: Manifest): string[] {
  const names = new Set(files.map((file) => file.name));
  const seen = new Set<string>();
  return transfers.flatMap(({ file }, index) => {
    const at = `transfers.${index}.file`;
    const problems: string[] = [];
    if (seen.has(file)) problems.push(`${at}: ${file} is named twice`);
    seen.add(file);
    if (!pagesPattern.test(file) || !names.has(file)) {
      problems.push(`${at}: ${file} is no pages file of the image`);
    }
    return problems;
  });
}

function parentProblems({ parent, features, files }: Manifest): string[] {
  const problems: string[] = [];
  if ((parent !== null) !== features.required.includes(parentFeature)) {
    problems.push(`features.required: "${parentFeature}" and the parent do not agree`);
  }
  const names = new Set(files.map((file) => file.name));
  const seen = new Set<string>();
  (parent?.files ?? []).forEach(({ name }, index) => {
    const at = `parent.files.${index}.name`;
    if (seen.has(name)) problems.push(`${at}: ${name} is named twice`);
    seen.add(name);
    if (!pagesPattern.test(name) || !names.has(name)) {
      problems.push(`${at}: ${name} is no pages file of the image`);
    }
  });
  return problems;
}
