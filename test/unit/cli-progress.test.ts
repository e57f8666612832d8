import assert from 'node:assert/strict';
import { test } from 'node:test';
import { columnsOf, fitted } from '../../src/cli/format.js';
import { progressOf } from '../../src/cli/progress.js';

/** What a progress of one update draws on a terminal of this width. */
function drawn(columns: number | undefined, name: string, done = 3 << 20): string {
  let printed = '';
  const err = (text: string) => {
    printed += text;
  };
  progressOf({ err, isTerminal: true, columns: () => columns } as never).update(
    name,
    done,
    12 << 20,
  );
  assert.ok(printed.startsWith('\r\u001b[K'), printed);
  return printed.slice('\r\u001b[K'.length);
}

const watched = 'checkpoint 4711: overlap, waiting for memory, 3.1 MB/s';

test('a line of progress never reaches the last column of the terminal', () => {
  for (const name of [watched, 'x'.repeat(300), '保存'.repeat(60), 'e\u0301'.repeat(90), '']) {
    for (let columns = 1; columns <= 200; columns += 1) {
      const line = drawn(columns, name);
      assert.ok(columnsOf(line) < columns, `${columns}: ${line}`);
    }
  }
});

test('the bar shrinks first, then it goes, then the name is cut; the numbers stay', () => {
  const numbers = '3.0 MiB of 12.0 MiB (25%)';
  assert.equal(drawn(120, watched), `${watched}: [#####...............] ${numbers}`);
  assert.equal(drawn(96, watched), `${watched}: [##.........] ${numbers}`);
  assert.equal(drawn(89, watched), `${watched}: ${numbers}`);
  assert.equal(
    drawn(80, watched),
    `checkpoint 4711: overlap, waiting for memory, 3.1...: ${numbers}`,
  );
  assert.equal(drawn(30, watched), `..: ${numbers}`);
});

test('a terminal that does not know its width is taken for one of 80 columns', () => {
  for (const columns of [0, undefined]) assert.equal(drawn(columns, watched), drawn(80, watched));
});

test('a terminal that is resized gets lines of its new width', () => {
  let printed: string[] = [];
  let columns = 100;
  const progress = progressOf({
    err: (text: string) => void printed.push(text.replace('\r\u001b[K', '')),
    isTerminal: true,
    columns: () => columns,
  } as never);
  progress.show('y'.repeat(300));
  columns = 40;
  progress.show('y'.repeat(300));
  columns = 70;
  progress.update('y'.repeat(300), 10, 10);
  assert.deepEqual(printed.map(columnsOf), [99, 39, 69]);
  printed = [];
  progress.end();
  assert.deepEqual(printed, ['']);
});

test('a name cannot steer the terminal', () => {
  assert.match(drawn(80, 'a\u001b[2Jb'), /^a\?\[2Jb: \[/);
});

test('text is cut to columns, not to characters', () => {
  assert.equal(fitted('abcdef', 6), 'abcdef');
  assert.equal(fitted('abcdefg', 6), 'abc...');
  assert.equal(fitted('保存保存', 6), '保...');
  assert.equal(fitted('保存', 1), '.');
  assert.equal(fitted('abc', 0), '');
});

test('progress on a terminal redraws one line and leaves none', () => {
  let printed = '';
  const progress = progressOf({
    err: (text: string) => {
      printed += text;
    },
    isTerminal: true,
    columns: () => 80,
  } as never);
  progress.update('f', 1, 10);
  progress.update('f', 10, 10);
  progress.end();
  assert.ok(!printed.includes('\n'));
  assert.ok(printed.endsWith('(100%)\r\u001b[K'));
});
