/** Names in documents that readers of logs, manifests and annotations rely on. */

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { manifestSchema } from '../../src/manifest/schema.js';
import { repository } from './paths.js';

const read = (path: string) => readFileSync(join(repository, path), 'utf8');
const observing = read('docs/observing.md');

/** The text of a section up to the next heading of any level. */
function section(text: string, heading: string): string {
  const [, rest] = text.split(`\n${heading}\n`);
  assert.ok(rest !== undefined, heading);
  return rest.split(/\n#+ /)[0] ?? '';
}

const codeIn = (text: string) => [...text.matchAll(/`([\w.]+)`/g)].map(([, name = '']) => name);
const firstCells = (table: string) =>
  [...table.matchAll(/^\| (`[^|]*`) \|/gm)].flatMap(([, cell = '']) => codeIn(cell));

const session = readdirSync(join(repository, 'src/session'), { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.ts'))
  .map((name) => read(`src/session/${name}`))
  .join('\n');
const clock = read('src/session/dump/clock.ts');
const all = (text: string, pattern: RegExp) =>
  [...text.matchAll(pattern)].map(([, name = '']) => name);
const sorted = (names: Iterable<string>) => [...new Set(names)].sort();

test('the phases in docs/observing.md are the phases of sessions', () => {
  const table = section(observing, '## Timings').split('`freeze` is')[0] ?? '';
  const names = /const names[^{]*\{(.*?)\}/s.exec(clock)?.[1] ?? '';
  const entered = [
    ...all(session, /phases\.enter\('(\w+)'\)/g),
    ...all(session, /new Phases\('(\w+)'\)/g),
    ...all(names, /: '(\w+)'/g),
  ];
  assert.ok(entered.length > 10, entered.join());
  assert.deepEqual(sorted(firstCells(table)), sorted(entered));
});

test('the other times in docs/observing.md are the times that sessions add', () => {
  const [, text = ''] = section(observing, '## Timings').split(/\n(?=`freeze` is)/);
  const bodies = all(session, /\n {2}timings\([^)]*\): Record<string, number> \{(.*?)\n {2}\}/gs);
  const added = bodies.flatMap((body) => all(body, /[{ ](\w+)(?:: us\(| \}\)| \};)/g));
  const documented = codeIn(text).filter((name) => !['gate', 'slowest'].includes(name));
  assert.deepEqual(sorted(documented), sorted(added.filter((name) => name !== 'timings')));
});

test('the outcomes in docs/observing.md are the outcomes of the machines', () => {
  const [, text = ''] = observing.split('\n`outcome` is ');
  const machines = ['dump/state', 'restore/machine'].map((name) => read(`src/session/${name}.ts`));
  const outcomes = machines.flatMap((machine) =>
    all(/outcome\?: (.*);/.exec(machine)?.[1] ?? '', /'(\w+)'/g),
  );
  assert.deepEqual(sorted(codeIn(text.split('\n\n')[0] ?? '')), sorted(outcomes));
});

/** Members of an interface at its own level. */
function membersOf(source: string, name: string): string[] {
  const body = new RegExp(`interface ${name} (?:extends \\w+ )?\\{\\n(.*?)\\n\\}`, 's').exec(
    source,
  )?.[1];
  return all(body ?? '', /^ {2}readonly (\w+)\??:/gm);
}

test('the fields of a transfer in docs/observing.md are the fields that the addon returns', () => {
  const transfers = read('src/addon/transfers.ts');
  const tables = section(observing, '### Result of a transfer').split('\n| stage | meaning |');
  const fields = [
    ...membersOf(transfers, 'TransferResult'),
    ...membersOf(read('src/addon/images.ts'), 'PagesSummary'),
  ];
  assert.deepEqual(sorted(firstCells(tables[0] ?? '')), sorted(fields));
  const stages = /stages: \{(.*?)\n {2}\};/s.exec(transfers)?.[1] ?? '';
  assert.deepEqual(sorted(firstCells(tables[1] ?? '')), sorted(all(stages, /readonly (\w+): \{/g)));
});

/** Names of all members of a schema of valibot, at any depth. */
function keysOf(schema: unknown, seen = new Set<unknown>()): string[] {
  if (typeof schema !== 'object' || schema === null || seen.has(schema)) return [];
  seen.add(schema);
  const { entries, item, wrapped, options, pipe } = schema as Record<string, unknown>;
  const below = [item, wrapped, ...[options, pipe].flat(), ...Object.values(entries ?? {})];
  return [...Object.keys(entries ?? {}), ...below.flatMap((one) => keysOf(one, seen))];
}

test('docs/image-format.md describes every member of the manifest', () => {
  const text = read('docs/image-format.md');
  const keys = sorted(keysOf(manifestSchema));
  assert.ok(keys.length > 60, keys.join());
  const named = new Set(all(text, /`([^`\n]+)`/g).flatMap((code) => code.split(/\W+/)));
  const silent = keys.filter((key) => !named.has(key));
  assert.deepEqual(silent, []);
});

test('annotations in documents are known to the code', () => {
  const pages = readdirSync(join(repository, 'docs')).filter((name) => name.endsWith('.md'));
  const text = pages.map((name) => read(`docs/${name}`)).join('\n');
  const code = ['src', 'shim', 'hooks']
    .flatMap((folder) =>
      readdirSync(join(repository, folder), { recursive: true, encoding: 'utf8' })
        .filter((name) => name.endsWith('.ts'))
        .map((name) => read(`${folder}/${name}`)),
    )
    .join('\n');
  const names = sorted(all(text, /io\.kfd-checkpoint\.([a-z-]+)/g));
  assert.ok(names.includes('restore-from'), names.join());
  assert.deepEqual(
    names.filter((name) => !new RegExp(`[.'\`}]${name}['\`]`).test(code)),
    [],
  );
});
