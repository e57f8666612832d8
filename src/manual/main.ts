/**
 * `main.js FOLDER` makes the man pages of an installation below FOLDER/share, where packages expect them. Their date is
 * SOURCE_DATE_EPOCH, so that the same sources make the same bytes.
 */

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { version } from '../version.js';
import { manPages } from './pages.js';

const repository = fileURLToPath(new URL('../../..', import.meta.url));
const [folder] = process.argv.slice(2);
const seconds = process.env['SOURCE_DATE_EPOCH'];
if (folder === undefined || !/^\d+$/.test(seconds ?? '')) {
  throw new Error('usage: SOURCE_DATE_EPOCH=SECONDS main.js FOLDER');
}

const read = (path: string) => readFileSync(join(repository, path), 'utf8');
const date = new Date(Number(seconds) * 1000).toISOString().slice(0, 10);
for (const [name, text] of manPages(read, { date, version })) {
  const path = join(folder, 'share/man', name);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
}
