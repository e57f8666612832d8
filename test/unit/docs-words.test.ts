/** Documents can be read at once: short lines, short sentences, tables of facts, links that lead somewhere. */

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { prose, tableCells } from './markdown.js';
import { repository } from './paths.js';

const columns = 120;
const wordsOfASentence = 25;
const charactersOfACell = 160;

const tracked = (...patterns: string[]) =>
  execFileSync('git', ['ls-files', '--', ...patterns], { cwd: repository, encoding: 'utf8' })
    .split('\n')
    .filter((path) => path !== '' && existsSync(join(repository, path)));

/** A row of a table is one line of Markdown, however wide; modules of src/modules.list are shown as they are. */
const isTable = (path: string, text: string) =>
  path.endsWith('.md') && /^[|]|^(src|shim)\/[a-z/]+ +(src|shim)\//.test(text);

const read = (path: string) => readFileSync(join(repository, path), 'utf8');
const documents = tracked('*.md');

test('there are documents to look at', () => {
  assert.ok(documents.includes('README.md'));
  assert.ok(documents.length > 10, documents.join());
});

/** What is wrong with the words of a document: a line of text for each. */
function faults(path: string): string[] {
  const text = read(path);
  const sentences = prose(text).filter(({ words }) => words > wordsOfASentence);
  const cells = tableCells(text).filter((cell) => cell.text.length > charactersOfACell);
  return [
    ...sentences.map((one) => `${path}:${one.line}: ${one.words} words: ${one.text}`),
    ...cells.map(
      (cell) => `${path}:${cell.line}: cell of ${cell.text.length} characters: ${cell.text}`,
    ),
  ];
}

test(`sentences have at most ${wordsOfASentence} words, cells of tables ${charactersOfACell} characters`, () => {
  const found = documents.flatMap(faults);
  assert.equal(found.length, 0, `\n${found.join('\n')}`);
});

/** Lists and drawings have one record a line; fixtures are bytes. Each other file is here for its reason. */
const unbroken = [
  /\.(svg|json|list|expected)$/,
  /^test\/fixtures\//,
  // Their digests name downloads and images of the guest. An edit makes each machine fetch and build them again.
  /^test\/lab\/(image|rootfs|next-kernel|driver\/source|others\/rootfs)\.sh$/,
  /^test\/lab\/kfdsim\/(Kbuild|conformance\.sh|objects\.c|tests\/gpus\/gpus\.sh)$/,
];

test(`no line of a document or a source is wider than ${columns} columns`, () => {
  const sources = tracked().filter((path) => !unbroken.some((pattern) => pattern.test(path)));
  assert.ok(sources.includes('test/lab/lab.sh'));
  const wide = sources.flatMap((path) =>
    read(path)
      .split('\n')
      .map((text, at) => ({ text, where: `${path}:${at + 1}` }))
      .filter(({ text }) => text.length > columns && !isTable(path, text))
      .map(({ text, where }) => `${where}: ${text.length} columns`),
  );
  assert.equal(wide.length, 0, `\n${wide.join('\n')}`);
});

test('every link of a document to a file leads to one', () => {
  const dead = documents.flatMap((path) =>
    [...read(path).matchAll(/\]\(([^)#\s]+)(#[^)]*)?\)/g)]
      .map(([, target]) => target ?? '')
      .filter((target) => !/^[a-z]+:/.test(target))
      .filter((target) => !existsSync(join(repository, dirname(path), target)))
      .map((target) => `${path}: ${target}`),
  );
  assert.equal(dead.length, 0, `\n${dead.join('\n')}`);
});

test('README is at most 120 lines, architecture at most 200', () => {
  const lines = (path: string) => read(path).trimEnd().split('\n').length;
  assert.ok(lines('README.md') <= 120, `README.md: ${lines('README.md')}`);
  assert.ok(
    lines('docs/architecture.md') <= 200,
    `architecture.md: ${lines('docs/architecture.md')}`,
  );
});

test('every page of docs says at once who it is for', () => {
  const pages = documents.filter((path) => path.startsWith('docs/'));
  const silent = pages.filter((path) => {
    const [, first = ''] = read(path).split(/\n\n/);
    return !/^This page is for /.test(first);
  });
  assert.equal(silent.length, 0, silent.join());
});
