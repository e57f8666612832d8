/** The test files that may come to a mutated file: what they import, and the programs and scripts that they name. */

import { existsSync, readFileSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { repository } from '../unit/paths.js';

/** Paths like "dist/test/unit/x.test.js" of tests that still have a source and import one of `files`. */
export async function testFilesFor(files: ReadonlySet<string>): Promise<string[]> {
  const names = await readdir(join(repository, 'test/unit'));
  const tests = names.filter((name) => name.endsWith('.test.ts'));
  return tests
    .map((name) => `dist/test/unit/${name.replace(/\.ts$/, '.js')}`)
    .filter((path) => [...reached(path)].some((file) => files.has(file)))
    .sort();
}

/** A file of `dist`, or a script, and all that it imports or names. */
function reached(path: string, found = new Set<string>()): ReadonlySet<string> {
  const full = join(repository, path);
  if (found.has(path) || !existsSync(full)) return found;
  found.add(path);
  const text = readFileSync(full, 'utf8');
  for (const [, imported] of text.matchAll(/(?:from|import\(?|new URL\() ?'(\.[^']+\.js)'/g)) {
    reached(join(dirname(path), imported as string), found);
  }
  for (const [program] of text.matchAll(/dist\/(?:src|shim|hooks)\/[\w/-]+\.js/g)) {
    reached(program, found);
  }
  for (const [, script] of text.matchAll(/'((?:shim|hooks)\/[\w-]+)'/g)) {
    reached(script as string, found);
  }
  return found;
}
