/** What native/core/modules.list asks of the files of native/core. */

import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';

export interface SourceFile {
  /** From native/core: "os/fd.h". */
  path: string;
  text: string;
}

/** The modules of a list, top first. */
export function parseModules(list: string): string[] {
  return list
    .split('\n')
    .map((line) => line.replace(/#.*/, '').trim())
    .filter((line) => line !== '');
}

/** The C++ files below `core`. */
export async function readSources(core: string): Promise<SourceFile[]> {
  const paths = await readdir(core, { recursive: true });
  const sources = paths.filter((path) => /\.(cc|h)$/.test(path)).sort();
  return Promise.all(
    sources.map(async (path) => ({ path, text: await readFile(join(core, path), 'utf8') })),
  );
}

/** Every breach of the order, a sentence each. */
export function moduleFaults(modules: readonly string[], files: readonly SourceFile[]): string[] {
  const byPath = new Map(files.map(({ path, text }) => [path, includesOf(text)]));
  const faults = modules
    .filter((module) => !files.some(({ path }) => moduleOf(path) === module))
    .map((module) => `modules.list names ${module}, which has no file`);
  for (const [path, includes] of byPath) {
    const rank = modules.indexOf(moduleOf(path));
    if (rank < 0) {
      faults.push(`native/core/${path} is in no module of modules.list`);
      continue;
    }
    for (const include of includes) {
      const fault = includeFault(modules, path, include, byPath);
      if (fault !== undefined) faults.push(`native/core/${path} includes "${include}", ${fault}`);
    }
  }
  return [...faults, ...circles(byPath)];
}

/** The folder that a path begins with; empty for a file of native/core itself. */
function moduleOf(path: string): string {
  return path.includes('/') ? path.slice(0, path.indexOf('/')) : '';
}

/** What is included by quotes: of this repository. */
function includesOf(text: string): string[] {
  return [...text.matchAll(/^\s*#\s*include\s*"([^"]*)"/gm)].map((match) => match[1] as string);
}

function includeFault(
  modules: readonly string[],
  path: string,
  include: string,
  files: ReadonlyMap<string, readonly string[]>,
): string | undefined {
  const target = coreFile(include);
  if (target === undefined) return 'which is none of native/core: write "core/MODULE/FILE"';
  if (!files.has(target)) return 'which is not there';
  const [from, to] = [moduleOf(path), moduleOf(target)];
  if (modules.indexOf(to) >= modules.indexOf(from)) return undefined;
  return `but ${to} is above ${from} in modules.list`;
}

function coreFile(include: string): string | undefined {
  return include.startsWith('core/') ? include.slice('core/'.length) : undefined;
}

/** Files that include each other in a circle, each circle once. */
function circles(files: ReadonlyMap<string, readonly string[]>): string[] {
  const found: string[] = [];
  const done = new Set<string>();
  const visit = (path: string, way: readonly string[]): void => {
    if (way.includes(path)) {
      found.push(`a circle: ${[...way.slice(way.indexOf(path)), path].join(' includes ')}`);
      return;
    }
    if (done.has(path)) return;
    for (const include of files.get(path) ?? []) {
      const target = coreFile(include);
      if (target !== undefined) visit(target, [...way, path]);
    }
    done.add(path);
  };
  for (const path of files.keys()) visit(path, []);
  return found;
}
