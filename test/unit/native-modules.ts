/** What native/core/modules.list asks of the files of native/core, and of their tests in native/test. */

import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';

export interface SourceFile {
  /** From native: "core/os/fd.h". */
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

/** The C++ files in `folders` of `native`. */
export async function readSources(native: string, ...folders: string[]): Promise<SourceFile[]> {
  const paths: string[] = [];
  for (const folder of folders) {
    const below = await readdir(join(native, folder), { recursive: true });
    paths.push(...below.filter((path) => /\.(cc|h)$/.test(path)).map((path) => join(folder, path)));
  }
  return Promise.all(
    paths.sort().map(async (path) => ({ path, text: await readFile(join(native, path), 'utf8') })),
  );
}

/** Every breach of the order, a sentence each. Tests of what is no module of core are free. */
export function moduleFaults(modules: readonly string[], files: readonly SourceFile[]): string[] {
  const includesByPath = new Map(files.map(({ path, text }) => [path, includesOf(text)]));
  const faults = modules
    .filter((module) => !files.some(({ path }) => path.startsWith(`core/${module}/`)))
    .map((module) => `modules.list names ${module}, which has no file`);
  for (const [path, includes] of includesByPath) {
    if (!modules.includes(moduleOf(path))) {
      if (path.startsWith('core/')) faults.push(`native/${path} is in no module of modules.list`);
      continue;
    }
    for (const include of includes) {
      const fault = includeFault(modules, path, include, includesByPath);
      if (fault !== undefined) faults.push(`native/${path} includes "${include}", ${fault}`);
    }
  }
  return [...faults, ...circles(includesByPath)];
}

/** "os" of core/os/fd.h; empty for what is in no folder of core or test. */
function moduleOf(path: string): string {
  return /^(?:core|test)\/([^/]+)\//.exec(path)?.[1] ?? '';
}

/** What is included by quotes: files of this repository. */
function includesOf(text: string): string[] {
  return [...text.matchAll(/^\s*#\s*include\s*"([^"]*)"/gm)].map((match) => match[1] as string);
}

function includeFault(
  modules: readonly string[],
  path: string,
  include: string,
  files: ReadonlyMap<string, unknown>,
): string | undefined {
  const [from, to] = [moduleOf(path), moduleOf(include)];
  if (!modules.includes(to)) return 'which is in no module: write "core/MODULE/FILE"';
  if (path.startsWith('core/') && include.startsWith('test/')) return 'which is of the tests';
  if (!files.has(include)) return 'which is not there';
  if (modules.indexOf(to) >= modules.indexOf(from)) return undefined;
  return `but ${to} is above ${from} in modules.list`;
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
    for (const include of files.get(path) ?? []) visit(include, [...way, path]);
    done.add(path);
  };
  for (const path of files.keys()) visit(path, []);
  return found;
}
