/** What the documents say of the code is true. */

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { repository } from './paths.js';

const read = (path: string) => readFileSync(join(repository, path), 'utf8');

/** Texts of the log lines that the sources of `folder` write: the last argument of each call of a logger. */
function loggedIn(folder: string): Set<string> {
  const files = readdirSync(join(repository, folder), { recursive: true, encoding: 'utf8' });
  const sources = files
    .filter((name) => name.endsWith('.ts'))
    .map((name) => read(`${folder}/${name}`));
  const calls = /\blog\.(?:info|warn|error)\([^;]*?'([^']+)',?\s*\)/gs;
  return new Set(
    sources.flatMap((source) => [...source.matchAll(calls)].map(([, text]) => text ?? '')),
  );
}

test('the lines of a session in docs/operations.md are those of the code', () => {
  const [, rest = ''] = read('docs/operations.md').split('### Lines of a session\n');
  const [table = ''] = rest.split(/\n`result` has/);
  const rows = [...table.matchAll(/^\| (`[^|]*`) \|/gm)].map(([, cell]) => cell ?? '');
  const documented = rows.flatMap((cell) =>
    [...cell.matchAll(/`([^`]+)`/g)].map(([, text]) => text ?? ''),
  );
  const ofLogger = ['msg', 'lines are missing'];
  const lines = documented.filter((text) => !ofLogger.includes(text)).sort();
  assert.ok(lines.length > 20, lines.join());
  assert.deepEqual(lines, [...loggedIn('src/session')].sort());
});

test('the modules in docs/architecture.md are those of src/modules.list', () => {
  const isModule = (line: string) => line !== '' && !line.startsWith('#');
  const declared = read('src/modules.list').split('\n').filter(isModule).join('\n');
  const [, section = ''] = read('docs/architecture.md').split('`src/modules.list` says');
  assert.equal(/```\n(.*?)\n```/s.exec(section)?.[1], declared);
});
