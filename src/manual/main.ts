/**
 * `main.js FOLDER` makes man pages and completions of shells below FOLDER/share, where packages expect them. The date
 * of the pages is SOURCE_DATE_EPOCH, so that the same sources make the same bytes.
 */

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { version } from '../version.js';
import { completions } from './completion/completions.js';
import { manPages } from './pages.js';

const repository = fileURLToPath(new URL('../../..', import.meta.url));
const [folder] = process.argv.slice(2);
const seconds = process.env['SOURCE_DATE_EPOCH'];
if (folder === undefined || !/^\d+$/.test(seconds ?? '')) {
  throw new Error('usage: SOURCE_DATE_EPOCH=SECONDS main.js FOLDER');
}

const read = (path: string) => readFileSync(join(repository, path), 'utf8');
const date = new Date(Number(seconds) * 1000).toISOString().slice(0, 10);
const pages = [...manPages(read, { date, version })].map(
  ([name, text]) => [`man/${name}`, text] as const,
);
for (const [name, text] of [...pages, ...completions()]) {
  const path = join(folder, 'share', name);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
}
