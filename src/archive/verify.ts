/** Every byte of GPU state in a checkpoint, checked in one walk and in bounded memory. */

import { createHash } from 'node:crypto';
import { join } from 'node:path';
import type { PagesCheck } from '../addon/images.js';
import { KfdError } from '../errors.js';
import {
  pagesFileName,
  pagesPattern,
  renderStatePattern,
  statePattern,
} from '../manifest/names.js';
import { manifestLimits } from '../manifest/schema.js';
import { type CheckpointContents, collectState, readContents } from './contents.js';
import { imagePrefix } from './names.js';
import type { ImageVerifier } from './verifier.js';
import { alone, compareAll, type FileVerdict, type Seen } from './verify-compare.js';
import type { CheckpointEntry, WalkOptions } from './walk.js';

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

/**
 * Checks each state and pages file by itself, then all of them against the sealed manifest. Damage is a result, not an
 * exception. Throws only the errors of `readContents`.
 */
export async function verifyCheckpoint(
  path: string,
  options: VerifyOptions,
): Promise<VerifyReport> {
  const { verifier, keepIndexes } = options;
  const seen = new Map<string, Seen>();
  const siblings = verifier.siblingCheck();
  let recordsKept = 0;
  // Facts wait for the manifest, which may come last. Without a bound a hostile archive fills the memory with them.
  const keep = (name: string, one: Seen): void => {
    recordsKept += recordsOf(one);
    const { size, sha256 } = one;
    if (recordsKept <= maxRecords) seen.set(name, one);
    else seen.set(name, { size, ...(sha256 && { sha256 }), problem: 'more than can be checked' });
  };
  const contents = await readContents(path, options, async (entry, content) => {
    const name = entry.name.startsWith(imagePrefix) ? entry.name.slice(imagePrefix.length) : '';
    const watched = withProgress(name, entry, content, options.onProgress);
    if (pagesPattern.test(name)) {
      const check = verifier.pagesCheck(siblings, keepIndexes && join(keepIndexes, name));
      keep(name, await checkPages(entry, watched, check));
    }
    if (statePattern.test(name)) {
      const facts = (bytes: Buffer) => ({ state: verifier.stateFacts(bytes) });
      keep(name, await checkState(entry, watched, { head: verifier.stateHead, facts }));
    }
    if (renderStatePattern.test(name)) {
      const facts = (bytes: Buffer) => ({ renderState: verifier.renderStateFacts(bytes) });
      keep(name, await checkState(entry, watched, { head: verifier.renderStateHead, facts }));
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
  const files = compareAll(manifest, seen);
  const named = new Set(manifest.files.map((file) => file.name));
  for (const name of contents.imageFiles.keys()) {
    if (!named.has(name)) problems.push(`${name}: not in the manifest`);
  }
  return { contents, files, problems };
}

/** Buffers and BOs in all files together: 16 bytes each. A manifest has at most a million. */
const maxRecords = 1 << 22;

function recordsOf({ pages, state, renderState }: Seen): number {
  const bos = [state, renderState].map((facts) => facts?.bos.sizes.length ?? 0);
  return bos.reduce((sum, count) => sum + count, pages?.bufferIds.length ?? 0);
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
  for await (const chunk of content) {
    problem ??= failureOf(() => check.feed(chunk));
    // A compressed archive is read on, because other files follow. Elsewhere a file with holes may be huge.
    if (problem !== undefined && entry.place !== undefined) break;
  }
  if (problem !== undefined) return { size: entry.size, problem };
  let pages: Seen['pages'];
  problem = failureOf(() => {
    pages = check.finish();
  });
  return { size: entry.size, ...(pages && { pages }), ...(problem !== undefined && { problem }) };
}

/** How a state file is read. */
interface StateReader {
  readonly head: (head: Buffer, bytes: number) => void;
  readonly facts: (bytes: Buffer) => Pick<Seen, 'state' | 'renderState'>;
}

async function checkState(
  entry: CheckpointEntry,
  content: AsyncIterable<Buffer>,
  reader: StateReader,
): Promise<Seen> {
  const { size } = entry;
  let problem: string | undefined;
  const bytes = await collectState(entry, content, manifestLimits.stateBytes, (head) => {
    problem = failureOf(() => reader.head(head, size));
    return problem === undefined;
  });
  if (bytes === undefined) return { size, ...(problem !== undefined && { problem }) };
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  let facts: Pick<Seen, 'state' | 'renderState'> = {};
  problem = failureOf(() => {
    facts = reader.facts(bytes);
  });
  return { size, sha256, ...facts, ...(problem !== undefined && { problem }) };
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
