import assert from 'node:assert/strict';
import { test } from 'node:test';
import { prose, tableCells } from './markdown.js';

test('sentences of paragraphs and items are counted, code, tables and headings are not', () => {
  const document = [
    '# A heading that nobody counts',
    '',
    'One two three',
    'four. `a b c` is [one link](x.md).',
    '- An item of',
    '  two lines',
    '- another',
    '```',
    'code that nobody counts',
    '```',
    '| a | b |',
  ].join('\n');
  assert.deepEqual(
    prose(document).map(({ line, words }) => [line, words]),
    [
      [3, 4],
      [3, 4],
      [5, 5],
      [7, 1],
    ],
  );
});

test('cells of tables are found with their lines, a stroke in a cell is none between two', () => {
  const document = 'text\n| a | b\\|c |\n|---|:--|\n| d | |\n';
  assert.deepEqual(tableCells(document), [
    { line: 2, text: 'a' },
    { line: 2, text: 'b\\|c' },
    { line: 4, text: 'd' },
    { line: 4, text: '' },
  ]);
});
