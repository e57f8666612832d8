/** native/core and its tests keep to the order of its modules. */

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { moduleFaults, parseModules, readSources } from './native-modules.js';
import { repository } from './paths.js';

const native = join(repository, 'native');

/** `[path, included files...]` of a core with the modules "top" and "base". */
const faultsOf = (...files: [string, ...string[]][]): string[] =>
  moduleFaults(
    ['top', 'base'],
    [['core/top/a.h'], ['core/base/c.h'], ...files].map(([path, ...includes]) => ({
      path: path as string,
      text: includes.map((include) => `#include "${include}"\n`).join(''),
    })),
  );

test('each module of native/core, and its tests, include only what is below', async () => {
  const modules = parseModules(await readFile(join(native, 'core/modules.list'), 'utf8'));
  assert.deepEqual(moduleFaults(modules, await readSources(native, 'core', 'test')), []);
});

test('comments of the list are no modules', () => {
  assert.deepEqual(parseModules('# top first\n\ntop   # why\nbase\n'), ['top', 'base']);
});

test('includes downwards and within a module are as they should be', () => {
  assert.deepEqual(
    faultsOf(
      ['core/top/a.cc', 'core/top/a.h', 'core/base/c.h'],
      ['test/top/a_test.cc', 'core/base/c.h', 'test/base/fakes.h'],
      ['test/base/fakes.h', 'core/base/c.h'],
      ['test/programs/send.cc', 'anything.h'],
    ),
    [],
  );
});

test('an include upwards is told with file, include and both modules', () => {
  assert.deepEqual(faultsOf(['core/base/c.cc', 'core/top/a.h']), [
    'native/core/base/c.cc includes "core/top/a.h", but top is above base in modules.list',
  ]);
  assert.deepEqual(faultsOf(['test/base/c_test.cc', 'core/top/a.h']), [
    'native/test/base/c_test.cc includes "core/top/a.h", but top is above base in modules.list',
  ]);
});

test('a file in no module is told, and a module without files', () => {
  assert.deepEqual(faultsOf(['core/b.h'], ['core/other/c.h']), [
    'native/core/b.h is in no module of modules.list',
    'native/core/other/c.h is in no module of modules.list',
  ]);
  assert.deepEqual(moduleFaults(['top'], []), ['modules.list names top, which has no file']);
});

test('an include of what is in no module, or not there, is told', () => {
  assert.deepEqual(
    faultsOf(
      ['core/top/a.cc', 'addon/gem.h', 'b.h', 'core/top/gone.h', 'test/base/fakes.h'],
      ['test/base/fakes.h'],
    ),
    [
      'native/core/top/a.cc includes "addon/gem.h", which is in no module: write "core/MODULE/FILE"',
      'native/core/top/a.cc includes "b.h", which is in no module: write "core/MODULE/FILE"',
      'native/core/top/a.cc includes "core/top/gone.h", which is not there',
      'native/core/top/a.cc includes "test/base/fakes.h", which is of the tests',
    ],
  );
});

test('files that include each other are told, once', () => {
  assert.deepEqual(
    faultsOf(
      ['core/base/x.cc', 'core/base/x.h'],
      ['core/base/x.h', 'core/base/y.h'],
      ['core/base/y.h', 'core/base/x.h'],
    ),
    ['a circle: core/base/x.h includes core/base/y.h includes core/base/x.h'],
  );
});
