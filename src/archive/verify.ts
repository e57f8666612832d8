/** Every byte of GPU state in a checkpoint, checked in one walk and in bounded memory. */

import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { KfdError } from '../errors.js';
import {
  pagesFileName,
  pagesPattern,
  renderStatePattern,
  stateFileName,
  statePattern,
} from '../manifest/names.js';
import {
  type Manifest,
  type ManifestBuffer,
  type ManifestFile,
  type ManifestProcess,
  manifestLimits,
} from '../manifest/schema.js';
import { type CheckpointContents, collect, readContents } from './contents.js';
import { imagePrefix } from './names.js';
import type {
  ImageVerifier,
  PagesCheck,
  PagesFacts,
  RenderStateFacts,
  StateFacts,
} from './verifier.js';
import type { CheckpointEntry, WalkOptions } from './walk.js';

/** The verdict on one file. */
export interface FileVerdict {
  readonly name: string;
  /** Bytes. */
  readonly size: number;
  /** Frames checked, of a pages file. */
  readonly frames?: number;
  /** How many of these frames are stored in the parent, and in other files of the image. */
  readonly references?: number;
  readonly siblings?: number;
  /** For a pages file: whether it can be the parent of another. */
  readonly digests?: boolean;
  /** Empty: sound. */
  readonly problems: readonly string[];
}

export interface VerifyReport {
  readonly contents: CheckpointContents;
  readonly files: readonly FileVerdict[];
  /** Problems that belong to no single file. */
  readonly problems: readonly string[];
}

export interface VerifyOptions extends WalkOptions {
  readonly verifier: ImageVerifier;
  /** Keeps the indexes of sound pages files in this folder, under their names. */
  readonly keepIndexes?: string;
  /** Called as bytes of our files are read. */
  readonly onProgress?: (name: string, bytesDone: number, bytesTotal: number) => void;
}

/** Facts about a file from its bytes. */
interface Seen {
  readonly size: number;
  readonly pages?: PagesFacts;
  readonly state?: StateFacts;
  readonly renderState?: RenderStateFacts;
  readonly sha256?: string;
  readonly problem?: string;
}

/**
 * Checks each state and pages file by itself, then all of them against the sealed manifest. Damage is a result, not an
 * exception. Throws only the errors of `readContents`.
 */
export async function verifyCheckpoint(
  path: string,
  options: VerifyOptions,
): Promise<VerifyReport> {
  const seen = new Map<string, Seen>();
  const siblings = options.verifier.siblingCheck();
  const contents = await readContents(path, options, async (entry, content) => {
    const name = entry.name.startsWith(imagePrefix) ? entry.name.slice(imagePrefix.length) : '';
    const watched = withProgress(name, entry, content, options.onProgress);
    const { verifier, keepIndexes } = options;
    if (pagesPattern.test(name)) {
      const check = verifier.pagesCheck(siblings, keepIndexes && join(keepIndexes, name));
      seen.set(name, await checkPages(entry, watched, check));
    }
    if (statePattern.test(name)) {
      const read = (bytes: Buffer) => ({ state: verifier.stateFacts(bytes) });
      seen.set(name, await checkState(entry, watched, read));
    }
    if (renderStatePattern.test(name)) {
      const read = (bytes: Buffer) => ({ renderState: verifier.renderStateFacts(bytes) });
      seen.set(name, await checkState(entry, watched, read));
    }
  });
  const problems = contents.misplaced.map((name) => `${name}: not a plain file`);
  // Files come in any order: so references between them can be checked only at the end.
  for (const { process, gpu, reason } of siblings.problems()) {
    const name = pagesFileName(process, gpu);
    const one = seen.get(name);
    if (one === undefined || one.problem !== undefined) problems.push(`${name}: ${reason}`);
    else seen.set(name, { ...one, problem: reason });
  }
  const { manifest } = contents;
  if (manifest === undefined) {
    if (seen.size > 0) problems.push('the manifest is missing: the checkpoint was never finished');
    return { contents, files: [...seen].map(([name, one]) => alone(name, one)), problems };
  }
  const expected = expectations(manifest, seen);
  const files = manifest.files.map((file) => compare(expected, file, seen.get(file.name)));
  const named = new Set(manifest.files.map((file) => file.name));
  for (const name of seen.keys()) {
    if (!named.has(name)) problems.push(`${name}: not in the manifest`);
  }
  return { contents, files, problems };
}

async function* withProgress(
  name: string,
  entry: CheckpointEntry,
  content: AsyncIterable<Buffer>,
  onProgress: VerifyOptions['onProgress'],
): AsyncGenerator<Buffer> {
  let done = 0;
  for await (const chunk of content) {
    yield chunk;
    done += chunk.length;
    onProgress?.(name, done, entry.size);
  }
}

async function checkPages(
  entry: CheckpointEntry,
  content: AsyncIterable<Buffer>,
  check: PagesCheck,
): Promise<Seen> {
  let problem: string | undefined;
  // After damage the rest is still read, so that the other files get a verdict, too.
  for await (const chunk of content) {
    problem ??= failureOf(() => check.feed(chunk));
  }
  if (problem !== undefined) return { size: entry.size, problem };
  let pages: PagesFacts | undefined;
  problem = failureOf(() => {
    pages = check.finish();
  });
  return { size: entry.size, ...(pages && { pages }), ...(problem !== undefined && { problem }) };
}

async function checkState(
  entry: CheckpointEntry,
  content: AsyncIterable<Buffer>,
  read: (bytes: Buffer) => Pick<Seen, 'state' | 'renderState'>,
): Promise<Seen> {
  const bytes = await collect(entry, content, manifestLimits.stateBytes);
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  let facts: Pick<Seen, 'state' | 'renderState'> = {};
  const problem = failureOf(() => {
    facts = read(bytes);
  });
  return {
    size: entry.size,
    sha256,
    ...facts,
    ...(problem !== undefined && { problem }),
  };
}

function failureOf(step: () => void): string | undefined {
  try {
    step();
    return undefined;
  } catch (error) {
    if (error instanceof KfdError && error.code === 'E_INTERNAL') throw error;
    return error instanceof Error ? error.message : String(error);
  }
}

function alone(name: string, seen: Seen): FileVerdict {
  return {
    name,
    size: seen.size,
    ...(seen.pages && {
      frames: seen.pages.frames,
      references: seen.pages.references,
      siblings: seen.pages.siblings,
      digests: seen.pages.digests,
    }),
    problems: seen.problem === undefined ? [] : [seen.problem],
  };
}

/** The manifest indexed by file, built once: a hostile manifest has many files and many buffers. */
interface Expectations {
  readonly process: ReadonlyMap<string, ManifestProcess>;
  /** For a pages file: the root of its parent. */
  readonly parents: ReadonlyMap<string, string>;
  /** The process of a state file or pages file. */
  readonly buffers: ReadonlyMap<string, readonly ManifestBuffer[]>;
  /** For each state file: the BOs of the process's render files, which follow its own BOs. */
  readonly renderBos: ReadonlyMap<string, StateFacts['bos']>;
}

function expectations(
  { processes, buffers, ext_files: extFiles, parent }: Manifest,
  seen: ReadonlyMap<string, Seen>,
): Expectations {
  const byFile = new Map<string, ManifestBuffer[]>();
  for (const buffer of buffers) {
    for (const name of [buffer.pages_file, stateFileName(buffer.process)]) {
      const list = byFile.get(name);
      if (list === undefined) byFile.set(name, [buffer]);
      else list.push(buffer);
    }
  }
  const renderStates = extFiles
    .flatMap(({ process, render_state: name }) => {
      const state = seen.get(name ?? '')?.renderState;
      return state ? [{ process, ...state }] : [];
    })
    .sort((a, b) => a.ordinal - b.ordinal);
  const renderBos = new Map<string, StateFacts['bos'][number][]>();
  for (const { process, bos } of renderStates) {
    const name = stateFileName(process);
    const list = renderBos.get(name);
    if (list === undefined) renderBos.set(name, [...bos]);
    else for (const bo of bos) list.push(bo);
  }
  return {
    process: new Map(processes.map((one) => [one.state_file, one])),
    parents: new Map(parent?.files.map(({ name, root }) => [name, root])),
    buffers: byFile,
    renderBos,
  };
}

function compare(expected: Expectations, file: ManifestFile, seen: Seen | undefined): FileVerdict {
  if (seen === undefined) return { name: file.name, size: 0, problems: ['missing'] };
  const problems: string[] = seen.problem === undefined ? [] : [seen.problem];
  const differ = (what: string, is: number | string, was: number | string) => {
    if (is !== was) problems.push(`${what} is ${is}, the manifest says ${was}`);
  };
  differ('size', seen.size, file.size);
  if (seen.sha256 !== undefined) differ('sha256', seen.sha256, file.digest.hex);
  if (seen.pages !== undefined) {
    differ('digest', seen.pages.root, file.digest.hex);
    comparePages(expected, file, seen.pages, differ);
  }
  if (seen.state !== undefined) compareState(expected, file, seen.state, differ);
  return { ...alone(file.name, seen), problems };
}

type Differ = (what: string, is: number | string, was: number | string) => void;

function comparePages(
  expected: Expectations,
  file: ManifestFile,
  pages: PagesFacts,
  differ: Differ,
) {
  const buffers = expected.buffers.get(file.name) ?? [];
  const [, process = '', gpu = ''] = pagesPattern.exec(file.name) ?? [];
  differ('parent', pages.parent ?? 'none', expected.parents.get(file.name) ?? 'none');
  differ('process', pages.process, Number(process));
  differ('gpu', pages.gpu, Number.parseInt(gpu, 16));
  differ('number of buffers', pages.buffers, buffers.length);
  differ(
    'content',
    pages.contentBytes,
    buffers.reduce((sum, buffer) => sum + buffer.size, 0),
  );
}

function compareState(
  expected: Expectations,
  file: ManifestFile,
  state: StateFacts,
  differ: Differ,
) {
  const process = expected.process.get(file.name);
  if (process === undefined) return;
  differ('process', state.ordinal, process.ordinal);
  differ('pid in its namespace', state.nsPid, process.ns_pid);
  differ('number of objects', state.numObjects, process.num_objects);
  const bos = [...state.bos, ...(expected.renderBos.get(file.name) ?? [])];
  differ('number of BOs', bos.length, process.num_bos);
  for (const buffer of expected.buffers.get(file.name) ?? []) {
    const bo = bos[buffer.bo_index];
    const at = `BO ${buffer.bo_index}`;
    differ(`size of ${at}`, bo?.size ?? 'nothing', buffer.size);
    differ(`kind of ${at}`, bo?.kind ?? 'nothing', buffer.kind);
  }
}
