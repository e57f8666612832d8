/** The licences of the packages in a bundle. They require that their text is distributed with the code. */

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

interface Package {
  readonly name: string;
  /** Its folder. */
  readonly path: string;
}

/** The npm package a module belongs to; undefined for our own modules and for the bundler's helpers. */
export function packageOf(moduleId: string): Package | undefined {
  const match = /^(\/.*\/node_modules\/((?:@[^/]+\/)?[^/]+))\//.exec(moduleId);
  return match === null ? undefined : { path: match[1] as string, name: match[2] as string };
}

/** Licences that allow this use and require only their text. */
const known = new Set(['MIT', 'ISC', 'BSD-2-Clause', 'BSD-3-Clause', 'Apache-2.0', '0BSD']);

/** The text of THIRD-PARTY-NOTICES. Throws when a package has no licence text, or an unknown licence. */
export function notices(moduleIds: Iterable<string>): string {
  const packages = new Map<string, Package>();
  for (const id of moduleIds) {
    const found = packageOf(id);
    if (found !== undefined) packages.set(found.path, found);
  }
  const parts = [...packages.values()].sort((a, b) => (a.name < b.name ? -1 : 1)).map(notice);
  return `The programs in dist/ contain code of these packages.\n\n${parts.join('\n')}`;
}

function notice({ name, path }: Package): string {
  const { version, license } = JSON.parse(readFileSync(join(path, 'package.json'), 'utf8')) as {
    readonly version: string;
    readonly license?: string;
  };
  if (license === undefined || !known.has(license)) {
    throw new Error(
      `${name}: licence ${license}: look at it, then add it to src/bundle/notices.ts`,
    );
  }
  const texts = readdirSync(path).filter((file) => /^(licen[cs]e|notice|copying)/i.test(file));
  if (texts.length === 0) throw new Error(`${name}: there is no licence text in ${path}`);
  const lines = texts.map((file) => readFileSync(join(path, file), 'utf8').trim());
  return `${'='.repeat(80)}\n${name} ${version}, ${license}\n\n${lines.join('\n\n')}\n`;
}
