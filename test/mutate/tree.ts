/**
 * The tree that mutants run in: build/mutate/tree has links to what is in the repository and its own `dist`, in which
 * the chosen files hold their mutants.
 */

import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { cp, mkdir, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { SourceMap } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { repository } from '../unit/paths.js';
import { mutate } from './mutations.js';

export const work = join(repository, 'build/mutate');
export const tree = join(work, 'tree');
/** $TMPDIR of the tests: what tests that were killed leave goes with it. */
export const temporary: string = mkdtempSync(join(tmpdir(), 'kfd-mutate-'));
process.on('exit', () => rmSync(temporary, { recursive: true, force: true }));

/** The scripts in `hooks` and `shim` look for `dist` beside their real path. A link would lead to the sound `dist`. */
const copied = ['dist', 'hooks', 'shim'];

export interface Mutant {
  readonly id: number;
  /** The file in the repository, and the line there: "src/os/files.ts", 12. */
  readonly file: string;
  readonly line: number;
  readonly from: string;
  readonly to: string;
}

/** Makes the tree with mutants of all files below `places` ("src/os", "shim/proxy/server.ts"). */
export async function makeTree(places: readonly string[]): Promise<Mutant[]> {
  await rm(tree, { recursive: true, force: true });
  await mkdir(tree, { recursive: true });
  for (const name of await readdir(repository)) {
    const [from, to] = [join(repository, name), join(tree, name)];
    if (copied.includes(name)) await cp(from, to, { recursive: true });
    else if (name !== '.git') await symlink(from, to);
  }
  const mutants: Mutant[] = [];
  for (const place of places) {
    for (const path of await compiledFiles(place)) mutants.push(...(await plant(path, mutants)));
  }
  return mutants;
}

async function compiledFiles(place: string): Promise<string[]> {
  const root = join('dist', place);
  if (place.endsWith('.ts')) return [root.replace(/\.ts$/, '.js')];
  const below = await readdir(join(repository, root), { recursive: true });
  return (
    below
      .filter((path) => path.endsWith('.js'))
      // tsc leaves the output of removed files.
      .filter((path) => existsSync(join(repository, place, path.replace(/\.js$/, '.ts'))))
      .sort()
      .map((path) => join(root, path))
  );
}

async function plant(path: string, before: readonly Mutant[]): Promise<Mutant[]> {
  const from = join(repository, path);
  const source = (await readFile(from, 'utf8')).replace(/\n\/\/# sourceMappingURL=.*\n?$/, '\n');
  const map = new SourceMap(JSON.parse(await readFile(`${from}.map`, 'utf8')));
  const runtime = relative(dirname(path), 'dist/test/mutate/active.js');
  const { text, mutations } = mutate(
    source,
    before.length,
    runtime.startsWith('.') ? runtime : `./${runtime}`,
  );
  // A first line of its own would move the line of a program's "#!".
  await writeFile(join(tree, path), text);
  const file = path.replace(/^dist\//, '').replace(/\.js$/, '.ts');
  return mutations.map(({ id, at, from: text, to }) => {
    const lines = source.slice(0, at).split('\n');
    const entry = map.findEntry(lines.length - 1, lines.at(-1)?.length ?? 0);
    const line = 'originalLine' in entry ? entry.originalLine + 1 : 0;
    return { id, file, line, from: oneLine(text), to: oneLine(to) };
  });
}

function oneLine(text: string): string {
  const line = text.replace(/\s+/g, ' ');
  return line.length > 90 ? `${line.slice(0, 87)}...` : line;
}
