import assert from 'node:assert/strict';
import { test } from 'node:test';
import { mutate } from '../mutate/mutations.js';
import { withSwitches } from '../mutate/native-guards.js';
import { testFilesFor } from '../mutate/test-files.js';

/** Runs a function of the source with one mutant on; -1: none. */
function run(source: string, mutant: number, ...args: readonly unknown[]): unknown {
  const { text } = mutate(source, 0, './active.js');
  const body = text.slice(text.indexOf(';') + 1);
  const work = new Function('__m', `${body}; return work;`) as (
    on: (id: number) => boolean,
  ) => (...args: readonly unknown[]) => unknown;
  return work((id) => id === mutant)(...args);
}

const source = `function work(a, b) {
  let text = '';
  if (a) if (b) text += 'both';
  else text += 'first';
  for (let i = 0; i < 2; i++) text += i;
  return text;
}`;

test('a file with all its mutants does the same while none is on', () => {
  const original = new Function(`${source}; return work;`)() as typeof run;
  for (const a of [true, false]) {
    for (const b of [true, false]) {
      assert.equal(run(source, -1, a, b), (original as (...of: unknown[]) => unknown)(a, b));
    }
  }
});

test('each mutant changes what it says', () => {
  const { mutations } = mutate(source, 0, './active.js');
  const idOf = (from: string, to: string) => {
    const found = mutations.find((one) => one.from === from && one.to === to);
    assert.ok(found, `${from} -> ${to}`);
    return found.id;
  };
  assert.equal(run(source, idOf('a', 'false'), true, true), '01');
  assert.equal(run(source, idOf('b', 'true'), true, false), 'both01');
  assert.equal(run(source, idOf("text += 'first';", ''), true, false), '01');
  assert.equal(run(source, idOf('i < 2', 'i <= 2'), true, true), 'both012');
  assert.equal(run(source, idOf('i < 2', 'false'), true, true), 'both');
  assert.equal(run(source, idOf('text', 'undefined'), true, true), undefined);
});

test('lines of logs, points of the test build, text and helpers of tsc are left alone', () => {
  const source = `log.warn('x' + y); stage('shim', 'saved'); super_('a'); 'use strict';`;
  const { mutations } = mutate(source, 0, './active.js');
  assert.deepEqual(
    mutations.map(({ from, to }) => [from, to]),
    [["super_('a');", '']],
  );
});

test('tests that start a program are among those of its modules, also when a script lies between', async () => {
  const cases: readonly [program: string, tests: readonly string[]][] = [
    ['shim/task/main.js', ['shim-task', 'shim-bootstrap']],
    ['shim/main.js', ['shim-bootstrap', 'shim-delete']],
  ];
  for (const [program, names] of cases) {
    const tests = await testFilesFor(new Set([`dist/${program}`]));
    for (const name of names) {
      assert.ok(tests.includes(`dist/test/unit/${name}.test.js`), `${program}: ${tests}`);
    }
    assert.ok(!tests.includes('dist/test/unit/shim-frames.test.js'), program);
  }
});

test('guards of C++ files get a switch each, and nothing else changes', () => {
  const text = `void require(bool ok, const char* reason) {
  if (!ok) corrupt(reason);
}
void check(const Header& header) {
  require(header.magic == f(1, 2), "magic");
  if (header.size > kMax) {
    throw Error(ErrorCode::corrupt, "size");
  }
  if (const char* fault = of(header)) corrupt(fault);
  if (::fstat(fd, &info) == -1) throw io_error("stat");
  if (header.next) go_on();
}
`;
  const { text: switched, guards } = withSwitches(text, 5);
  assert.deepEqual(guards, [
    { id: 5, line: 2, condition: '!ok' },
    { id: 6, line: 5, condition: 'header.magic == f(1, 2)' },
    { id: 7, line: 6, condition: 'header.size > kMax' },
  ]);
  assert.match(
    switched,
    /require\(KFD_MUTANT\(6\) \? true : \(header\.magic == f\(1, 2\)\), "magic"\);/,
  );
  assert.match(switched, /if \(KFD_MUTANT\(7\) \? false : \(header\.size > kMax\)\) \{/);
  assert.equal(
    switched.replace(/KFD_MUTANT\(\d\) \? (true|false) : \((.*?)\)(?=[,)]( |;))/g, '$2'),
    text,
  );
});
