/** What the documents say of the code is true. */

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { defaultConfig } from '../../src/config.js';
import { exitCodes } from '../../src/errors.js';
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

test('the lines of a session in docs/observing.md are those of the code', () => {
  const [, rest = ''] = read('docs/observing.md').split('### Lines of a session\n');
  const [table = ''] = rest.split(/\n`outcome` is/);
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

test('the options in docs/configuration.md are those of the program, with their defaults', () => {
  const [, rest = ''] = read('docs/configuration.md').split('## Options\n');
  const [table = ''] = rest.split('\n### ');
  const documented = Object.fromEntries(
    [...table.matchAll(/^\| `(\w+)` \| `?([^|`]+?)`? \|/gm)].map(([, key = '', value = '']) => [
      key,
      JSON.parse(value) as unknown,
    ]),
  );
  assert.deepEqual(documented, defaultConfig());
});

test('the error codes in docs/troubleshooting.md are those of the program, with their exit statuses', () => {
  const rows = read('docs/troubleshooting.md').matchAll(/^\| `(E_\w+)` \| (\d+) \|/gm);
  const documented = Object.fromEntries(
    [...rows].map(([, code = '', status]) => [code, Number(status)]),
  );
  assert.deepEqual(documented, exitCodes);
});

test('every exit status of the program is explained in docs/troubleshooting.md', () => {
  const [, table = ''] = read('docs/troubleshooting.md').split('## Exit status\n');
  const documented = [...table.matchAll(/^\| (\d+) \|/gm)].map(([, status]) => Number(status));
  assert.deepEqual(documented, [...new Set([0, ...Object.values(exitCodes)])].sort());
});

test('verbs and options that documents show are those of the program, and each verb is shown', () => {
  const pages = [
    'README.md',
    ...readdirSync(join(repository, 'docs')).map((name) => `docs/${name}`),
  ];
  const text = pages
    .filter((path) => path.endsWith('.md'))
    .map(read)
    .join('\n');
  const shown = [...text.matchAll(/(?:^|`)kfd-checkpoint ([a-z]+)\b([^\n`]*)/gm)];
  const sources = readdirSync(join(repository, 'src/cli'), { recursive: true, encoding: 'utf8' });
  const program = sources
    .filter((name) => name.endsWith('.ts'))
    .map((name) => read(`src/cli/${name}`))
    .join('\n');
  const verbs = new Set(
    [...program.matchAll(/new Command\('([a-z]+)'\)/g)].map(([, verb]) => verb),
  );
  assert.ok(verbs.size > 8, [...verbs].join());
  // Options of podman may follow those of checkpoint and restore.
  const takesOthers = (verb = '') => ['checkpoint', 'restore'].includes(verb);
  const unknown = shown.filter(([, verb, rest = '']) => {
    const options = takesOthers(verb) ? [] : (rest.match(/--[a-z-]+/g) ?? []);
    const known = verb === 'help' || verbs.has(verb);
    return !known || options.some((option) => !new RegExp(`${option}\\b`).test(program));
  });
  assert.deepEqual(
    unknown.map(([whole]) => whole),
    [],
  );
  const shownVerbs = new Set(shown.map(([, verb]) => verb));
  const silent = [...verbs].filter((verb) => !shownVerbs.has(verb) && verb !== 'version');
  assert.deepEqual(silent, []);
});
