/** The test files that may come to a mutated file: what they import, and the programs and scripts that they name. */

import { existsSync, readFileSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { repository } from '../unit/paths.js';

/** Imports that starting a program or script counts for: its test takes longer than one that only imports. */
const programDistance = 10;

/**
 * Paths like "dist/test/unit/x.test.js" of tests that still have a source and come to one of `files`, in groups: those
 * with the fewest imports between come first, because these tests are about them.
 */
export async function testGroupsFor(files: ReadonlySet<string>): Promise<string[][]> {
  const names = await readdir(join(repository, 'test/unit'));
  const groups = new Map<number, string[]>();
  for (const name of names.filter((one) => one.endsWith('.test.ts')).sort()) {
    const path = `dist/test/unit/${name.replace(/\.ts$/, '.js')}`;
    const distances = [...distancesFrom(path)].filter(([file]) => files.has(file));
    if (distances.length === 0) continue;
    const nearest = Math.min(...distances.map(([, distance]) => distance));
    groups.set(nearest, [...(groups.get(nearest) ?? []), path]);
  }
  return [...groups].sort(([a], [b]) => a - b).map(([, group]) => group);
}

/** A file of `dist`, or a script, and all that it imports or names, with the imports between. */
function distancesFrom(path: string): ReadonlyMap<string, number> {
  const found = new Map<string, number>();
  const queue: [path: string, distance: number][] = [[path, 0]];
  for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
    const [at, distance] = next;
    if (found.has(at) || !existsSync(join(repository, at))) continue;
    found.set(at, distance);
    const { imports, programs } = namedIn(at);
    queue.push(...imports.map((one): [string, number] => [one, distance + 1]));
    queue.push(...programs.map((one): [string, number] => [one, distance + programDistance]));
    queue.sort(([, a], [, b]) => a - b);
  }
  return found;
}

function namedIn(path: string): { imports: string[]; programs: string[] } {
  const text = readFileSync(join(repository, path), 'utf8');
  const modules = text.matchAll(/(?:from|import\(?|new URL\() ?'(\.[^']+\.js)'/g);
  const programs = text.matchAll(/dist\/(?:src|shim|hooks)\/[\w/-]+\.js/g);
  const scripts = text.matchAll(/'((?:shim|hooks)\/[\w-]+)'/g);
  return {
    imports: [...modules].map(([, name]) => join(dirname(path), name as string)),
    programs: [
      ...[...programs].map(([program]) => program),
      ...[...scripts].map(([, name]) => name as string),
    ],
  };
}
