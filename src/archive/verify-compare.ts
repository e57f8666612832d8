/** What the files of a checkpoint say of themselves, against its manifest. */

import type { BoColumns, PagesListing, RenderStateFacts, StateFacts } from '../addon/images.js';
import { boFault, buffersOfBos, contentsFault, groupedBy, joined } from '../manifest/buffers.js';
import { pagesPattern, stateFileName } from '../manifest/names.js';
import type {
  Manifest,
  ManifestBuffer,
  ManifestFile,
  ManifestProcess,
} from '../manifest/schema.js';

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

/** Facts about a file from its bytes. */
export interface Seen {
  readonly size: number;
  readonly pages?: PagesListing;
  readonly state?: StateFacts;
  readonly renderState?: RenderStateFacts;
  readonly sha256?: string;
  readonly problem?: string;
}

/** The manifest indexed by file, built once: a hostile manifest has many files and many buffers. */
interface Expectations {
  readonly process: ReadonlyMap<string, ManifestProcess>;
  /** For a pages file: the root of its parent. */
  readonly parents: ReadonlyMap<string, string>;
  /** By pages file. */
  readonly buffers: ReadonlyMap<string, readonly ManifestBuffer[]>;
  /** For each process the buffer of each of its BOs. */
  readonly ofBos: ReadonlyMap<number, ReadonlyMap<number, ManifestBuffer>>;
  /** For each state file: the BOs of the process's render files, which follow its own BOs. */
  readonly renderBos: ReadonlyMap<string, readonly BoColumns[]>;
}

/** A file that no manifest names. */
export function alone(name: string, seen: Seen): FileVerdict {
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

/** Verdicts on all files of the manifest. */
export function compareAll(manifest: Manifest, seen: ReadonlyMap<string, Seen>): FileVerdict[] {
  const expected = expectations(manifest, seen);
  return manifest.files.map((file) => compare(expected, file, seen.get(file.name)));
}

function expectations(manifest: Manifest, seen: ReadonlyMap<string, Seen>): Expectations {
  const { processes, buffers, ext_files: extFiles, parent } = manifest;
  const renderStates = extFiles
    .flatMap(({ process, render_state: name }) => {
      const state = seen.get(name ?? '')?.renderState;
      return state ? [{ process, ...state }] : [];
    })
    .sort((a, b) => a.ordinal - b.ordinal);
  const renderBos = new Map<string, BoColumns[]>();
  for (const [process, states] of groupedBy(renderStates, (state) => state.process)) {
    renderBos.set(
      stateFileName(process),
      states.map(({ bos }) => bos),
    );
  }
  return {
    process: new Map(processes.map((one) => [one.state_file, one])),
    parents: new Map(parent?.files.map(({ name, root }) => [name, root])),
    buffers: groupedBy(buffers, (buffer) => buffer.pages_file),
    ofBos: buffersOfBos(manifest),
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
    const buffers = expected.buffers.get(file.name) ?? [];
    const fault = contentsFault(file.name, buffers, seen.pages);
    if (fault !== undefined) problems.push(fault);
  }
  const process = expected.process.get(file.name);
  if (seen.state !== undefined && process !== undefined) {
    differ('process', seen.state.ordinal, process.ordinal);
    differ('pid in its namespace', seen.state.nsPid, process.ns_pid);
    differ('number of objects', seen.state.numObjects, process.num_objects);
    const bos = joined([seen.state.bos, ...(expected.renderBos.get(file.name) ?? [])]);
    differ('number of BOs', bos.sizes.length, process.num_bos);
    const fault = boFault(bos, expected.ofBos.get(process.ordinal) ?? new Map());
    if (fault !== undefined) problems.push(fault);
  }
  return { ...alone(file.name, seen), problems };
}

function comparePages(
  expected: Expectations,
  file: ManifestFile,
  pages: PagesListing,
  differ: (what: string, is: number | string, was: number | string) => void,
) {
  const [, process = '', gpu = ''] = pagesPattern.exec(file.name) ?? [];
  differ('parent', pages.parent ?? 'none', expected.parents.get(file.name) ?? 'none');
  differ('process', pages.process, Number(process));
  differ('gpu', pages.gpu, Number.parseInt(gpu, 16));
}
