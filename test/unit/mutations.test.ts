import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Context, test as collect, collected } from '../mutate/collect.js';
import { Judged } from '../mutate/judged.js';
import { mutate } from '../mutate/mutations.js';
import { withSwitches } from '../mutate/native-guards.js';
import { type Fate, reportOn } from '../mutate/report.js';
import { testGroupsFor } from '../mutate/test-files.js';

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
    const tests = (await testGroupsFor(new Set([`dist/${program}`]))).flat();
    for (const name of names) {
      assert.ok(tests.includes(`dist/test/unit/${name}.test.js`), `${program}: ${tests}`);
    }
    assert.ok(!tests.includes('dist/test/unit/shim-frames.test.js'), program);
  }
});

test('tests that import a module come before those that import it through others', async () => {
  const groups = await testGroupsFor(new Set(['dist/src/archive/pax.js']));
  const at = (name: string) =>
    groups.findIndex((group) => group.includes(`dist/test/unit/${name}.test.js`));
  assert.equal(at('tar-header'), 0);
  assert.ok(at('tar-header') < at('tar-limits') && at('tar-limits') < at('cli-inspect'));
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
    /require\(KFD_MUTANT\(6\) \? true : static_cast<bool>\(header\.magic == f\(1, 2\)\), "magic"\);/,
  );
  assert.match(
    switched,
    /if \(KFD_MUTANT\(7\) \? false : static_cast<bool>\(header\.size > kMax\)\) \{/,
  );
  assert.equal(
    switched.replace(
      /KFD_MUTANT\(\d\) \? (true|false) : static_cast<bool>\((.*?)\)(?=[,)]( |;))/g,
      '$2',
    ),
    text,
  );
});

const list = `# It only spares
# a call.
src/a.ts: x -> false
src/a.ts: x -> true

# Nobody sees it.
src/b.ts: y -> nothing #2
src/b.ts: z -> nothing
src/c.ts: other -> nothing
`;

test('survivors that were judged say why, others that nobody has judged them, and old judgements go', () => {
  const fault = (file: string, line: number, change: string, fate: Fate) => ({
    file,
    line,
    change,
    fate,
  });
  const { text, suffices } = reportOn(
    [
      fault('src/a.ts', 1, 'x -> false', 'unnoticed'),
      fault('src/a.ts', 1, 'x -> true', 'failed'),
      fault('src/a.ts', 2, 'w -> true', 'unmet'),
      fault('src/b.ts', 3, 'y -> nothing', 'unnoticed'),
      fault('src/b.ts', 4, 'y -> nothing', 'unnoticed'),
      fault('src/b.ts', 5, 'z -> nothing', 'late'),
    ],
    new Judged(list),
  );
  assert.deepEqual(text.split('\n'), [
    'src/a.ts:1: x -> false (judged: It only spares a call.)',
    'src/a.ts:2: w -> true (no test comes here)',
    'src/b.ts:3: y -> nothing',
    'src/b.ts:4: y -> nothing #2 (judged: Nobody sees it.)',
    '',
    'no survivor, but in test/mutate/judged.list: src/a.ts: x -> true',
    'no survivor, but in test/mutate/judged.list: src/b.ts: z -> nothing',
    '    1 of     3  src/a.ts',
    '    1 of     3  src/b.ts',
    '4 survivors, 2 of them not in test/mutate/judged.list',
    '2 of 6 noticed (1 by a deadline): 33.3 %',
    '',
  ]);
  assert.equal(suffices, false);
});

test('85 of 100 suffice, 84 do not; a judgement has a reason', () => {
  const faults = (noticed: number) =>
    Array.from({ length: 100 }, (_, line) => {
      const fate = line < noticed ? 'failed' : 'unnoticed';
      return { file: 'src/a.ts', line, change: 'x', fate } as const;
    });
  const none = new Judged('');
  assert.deepEqual(
    [84, 85].map((noticed) => reportOn(faults(noticed), none).suffices),
    [false, true],
  );
  assert.throws(() => new Judged('# why\n\nsrc/a.ts: x\n'), /without a reason: src\/a\.ts: x/);
  assert.ok(Judged.fromList().reasonOf({ file: 'src/none.ts', change: 'x' }) === undefined);
});

test('what a test replaces is back when it has ended, timers too: others share its process', async () => {
  const [timeout, max] = [setTimeout, Math.max];
  collect('replaces', (t: Context) => {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    t.mock.method(Math, 'max', () => 7);
    assert.notEqual(setTimeout, timeout);
    assert.notEqual(Math.max, max);
  });
  await collected.pop()?.run();
  assert.equal(setTimeout, timeout);
  assert.equal(Math.max, max);
});
