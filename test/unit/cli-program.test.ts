/** The command line as a whole: help, wrong command lines, errors, formats of numbers and tables. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { exitCodeOf, failureOf, failureText } from '../../src/cli/failure.js';
import { duration, size, table, tree } from '../../src/cli/format.js';
import { KfdError } from '../../src/errors.js';
import { cli } from './cli-context.js';

test('wrong command lines are exit code 2, in the same lines', async () => {
  for (const args of [
    ['frobnicate'],
    ['inspect'],
    ['inspect', 'a', 'b'],
    ['inspect', 'a', '--format', 'xml'],
    ['check', '--nope'],
    ['--nope'],
  ]) {
    const { code, stdout, stderr } = await cli(args);
    assert.equal(code, 2, args.join(' '));
    assert.equal(stdout, '');
    assert.match(stderr, /^Error: .+\nHint: {2}.+\n$/);
  }
  assert.equal((await cli([])).code, 2);
});

test('help and version are results', async () => {
  assert.match((await cli(['--help'])).stdout, /Usage: kfd-checkpoint/);
  assert.match((await cli(['verify', '--help'])).stdout, /every frame/);
  assert.match((await cli(['help'])).stdout, /Usage: kfd-checkpoint/);
  for (const verb of ['restore', 'flatten']) {
    const { stdout } = await cli([verb, '--help']);
    assert.match(stdout, /--parent <archive>/);
    assert.doesNotMatch(stdout, /\[\]/, 'no option has an empty list as its default');
  }
  assert.match((await cli(['help', 'verify'])).stdout, /every frame/);
  for (const asked of ['version', '--version', '-V']) {
    const { code, stdout } = await cli([asked]);
    assert.equal(code, 0);
    assert.match(stdout, /^kfd-checkpoint \d+\.\d+\.\d+\n$/);
  }
});

test('a mistyped verb gets a suggestion that can be read', async () => {
  const { stderr } = await cli(['inspec']);
  assert.equal(
    stderr,
    'Error: unknown command \'inspec\'\nHint:  did you mean inspect? See "kfd-checkpoint --help"\n',
  );
});

test('an error names its log when there is one', () => {
  const error = new KfdError('E_TIMEOUT', 'gate: late', { details: { log: '/var/log/x' } });
  assert.match(failureText(error), /\nLog: {3}\/var\/log\/x\n$/);
  assert.equal(exitCodeOf(error), 6);
  const bug = failureOf(new TypeError('x is undefined'));
  assert.equal(bug?.code, 'E_INTERNAL');
});

test('sizes and times are for humans, columns are aligned', () => {
  assert.deepEqual([0, 1023, 1024, 1536, 2 ** 30, 2 ** 50 * 3000].map(size), [
    '0 B',
    '1023 B',
    '1.0 KiB',
    '1.5 KiB',
    '1.0 GiB',
    '3000.0 PiB',
  ]);
  assert.deepEqual([999, 1000, 1_500_000].map(duration), ['999 us', '1.0 ms', '1.50 s']);
  assert.equal(
    table(
      ['A', 'LONG'],
      [
        ['xx', 'y'],
        ['z', ''],
      ],
    ),
    'A   LONG\nxx  y\nz\n',
  );
  assert.equal(
    tree({ text: 'a', children: [{ text: 'b', children: [{ text: 'c' }] }, { text: 'd' }] }),
    'a\n├── b\n│   └── c\n└── d\n',
  );
});
