/** native/core keeps to the order of its modules. */

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { moduleFaults, parseModules, readSources } from './native-modules.js';
import { repository } from './paths.js';

const core = join(repository, 'native/core');

/** `[path, included files...]` of a core with the modules "top" and "base". */
const faultsOf = (...files: [string, ...string[]][]): string[] =>
  moduleFaults(
    ['top', 'base'],
    files.map(([path, ...includes]) => ({
      path,
      text: includes.map((include) => `#include "${include}"\n`).join(''),
    })),
  );

test('each module of native/core includes only those below it', async () => {
  const modules = parseModules(await readFile(join(core, 'modules.list'), 'utf8'));
  assert.deepEqual(moduleFaults(modules, await readSources(core)), []);
});

test('comments of the list are no modules', () => {
  assert.deepEqual(parseModules('# top first\n\ntop   # why\nbase\n'), ['top', 'base']);
});

test('an include downwards or within a module is none to speak of', () => {
  assert.deepEqual(
    faultsOf(['top/a.h', 'core/top/b.h', 'core/base/c.h'], ['top/b.h'], ['base/c.h']),
    [],
  );
});

test('an include upwards is told with file, include and both modules', () => {
  assert.deepEqual(faultsOf(['top/a.h'], ['base/c.cc', 'core/top/a.h']), [
    'native/core/base/c.cc includes "core/top/a.h", but top is above base in modules.list',
  ]);
});

test('a file in no module is told, and a module without files', () => {
  assert.deepEqual(faultsOf(['top/a.h'], ['b.h'], ['other/c.h']), [
    'modules.list names base, which has no file',
    'native/core/b.h is in no module of modules.list',
    'native/core/other/c.h is in no module of modules.list',
  ]);
});

test('an include of what is not in native/core is told', () => {
  assert.deepEqual(faultsOf(['top/a.h', 'addon/gem.h', 'b.h', 'core/top/gone.h'], ['base/c.h']), [
    'native/core/top/a.h includes "addon/gem.h", which is none of native/core: write "core/MODULE/FILE"',
    'native/core/top/a.h includes "b.h", which is none of native/core: write "core/MODULE/FILE"',
    'native/core/top/a.h includes "core/top/gone.h", which is not there',
  ]);
});

test('files that include each other are told, once', () => {
  assert.deepEqual(
    faultsOf(
      ['base/x.cc', 'core/base/a.h'],
      ['base/a.h', 'core/base/b.h'],
      ['base/b.h', 'core/base/a.h'],
      ['top/y.h'],
    ),
    ['a circle: base/a.h includes base/b.h includes base/a.h'],
  );
});
