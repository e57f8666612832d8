/** What the documents say of the code is true. */

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { defaultConfig } from '../../src/config.js';
import { exitCodes } from '../../src/errors.js';
import { repository } from './paths.js';

const read = (path: string) => readFileSync(join(repository, path), 'utf8');

interface Logged {
  readonly fields: Set<string>;
  /** Some fields come from another object, whose names are not in the call. */
  spreads: boolean;
}

/** Splits the text of an object literal at the commas between its members. */
function membersOf(literal: string): string[] {
  const members = [''];
  let depth = 0;
  for (const letter of literal) {
    if ('({['.includes(letter)) depth += 1;
    if (')}]'.includes(letter)) depth -= 1;
    if (letter === ',' && depth === 0) members.push('');
    else members[members.length - 1] += letter;
  }
  return members.map((member) => member.trim()).filter((member) => member !== '');
}

/**
 * Log lines that the sources of `folder` write, by text: the last argument of a logger's call; the first has the
 * fields.
 */
function loggedIn(folder: string): Map<string, Logged> {
  const files = readdirSync(join(repository, folder), { recursive: true, encoding: 'utf8' });
  const calls = /\blog\.(?:info|warn|error)\(\s*\{([^;]*?)\},\s*'([^']+)',?\s*\)/gs;
  const lines = new Map<string, Logged>();
  for (const name of files.filter((file) => file.endsWith('.ts'))) {
    for (const [, literal = '', text = ''] of read(`${folder}/${name}`).matchAll(calls)) {
      const logged = lines.get(text) ?? { fields: new Set(), spreads: false };
      for (const member of membersOf(literal)) {
        if (member.startsWith('...')) logged.spreads = true;
        else logged.fields.add(/^\w+/.exec(member)?.[0] ?? member);
      }
      lines.set(text, logged);
    }
  }
  return lines;
}

const codeIn = (cell = '') => [...cell.matchAll(/`([^`]+)`/g)].map(([, text]) => text ?? '');

/** Rows of the table of log lines: texts and fields. `lines are missing` is the logger's own. */
function documentedLines(): { texts: string[]; fields: string[] }[] {
  const [, rest = ''] = read('docs/observing.md').split('### Lines of a session\n');
  const [table = ''] = rest.split(/\n`outcome` is/);
  return [...table.matchAll(/^\| (`[^|]*`) \|([^|]*)\|/gm)]
    .map(([, texts, fields]) => ({ texts: codeIn(texts), fields: codeIn(fields) }))
    .filter(({ texts }) => !['msg', 'lines are missing'].includes(texts[0] ?? ''));
}

test('the lines of a session in docs/observing.md are those of the code', () => {
  const documented = documentedLines().flatMap(({ texts }) => texts);
  assert.ok(documented.length > 20, documented.join());
  assert.deepEqual(documented.sort(), [...loggedIn('src/session').keys()].sort());
});

test('the fields of the lines in docs/observing.md are those of the code', () => {
  const logged = loggedIn('src/session');
  for (const { texts, fields } of documentedLines()) {
    for (const text of texts) {
      const { fields: names, spreads } = logged.get(text) ?? { fields: new Set(), spreads: false };
      const missing = [...names].filter((name) => !fields.includes(name));
      const invented = spreads ? [] : fields.filter((name) => !names.has(name));
      assert.deepEqual({ text, missing, invented }, { text, missing: [], invented: [] });
    }
  }
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
