/** Which folders of GPU contents a restore needs, by the digests in their files. */

import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { test } from 'node:test';
import { contentsFolders, contentsOptions } from '../../src/migrate/gpu-folders.js';
import { temporaryFolder } from './paths.js';

/** Folder, file, its digest and that of its parent. */
type File = readonly [folder: string, name: string, root: string, parent?: string];

const cases: readonly (readonly [what: string, files: readonly File[], needed: string[]])[] = [
  ['no folder of the checkpoint', [['before.0', 'a', 'r0']], []],
  [
    'nothing left out',
    [
      ['contents', 'a', 'r1'],
      ['before.0', 'a', 'r0'],
    ],
    ['contents'],
  ],
  [
    'a chain, the nearest first',
    [
      ['contents', 'a', 'r2', 'r1'],
      ['before.1', 'a', 'r1', 'r0'],
      ['before.0', 'a', 'r0'],
    ],
    ['contents', 'before.1', 'before.0'],
  ],
  [
    'one file of two goes further back',
    [
      ['contents', 'a', 'a2', 'a1'],
      ['contents', 'b', 'b2', 'b1'],
      ['before.1', 'a', 'a1', 'a0'],
      ['before.1', 'b', 'b1'],
      ['before.0', 'a', 'a0'],
    ],
    ['contents', 'before.1', 'before.0'],
  ],
  [
    'the round between has nothing that is wanted',
    [
      ['contents', 'a', 'r2', 'r1'],
      ['before.1', 'a', 'r1'],
      ['before.0', 'a', 'r0'],
    ],
    ['contents', 'before.1'],
  ],
];

for (const [what, files, needed] of cases) {
  test(what, async (t) => {
    const folder = await temporaryFolder(t);
    const known = new Map(
      files.map(([at, name, root, parent]) => [`${at}/${name}`, { root, parent }]),
    );
    for (const [at, name] of files) {
      await mkdir(join(folder, at), { recursive: true });
      await writeFile(join(folder, at, name), 'x');
    }
    const list = (path: string) => {
      const found = known.get(`${basename(dirname(path))}/${basename(path)}`) ?? assert.fail(path);
      const { root, parent } = found;
      return parent === undefined ? { root } : { root, parent };
    };
    const expected = needed.map((name) => join(folder, name));
    assert.deepEqual(contentsFolders(folder, list), expected);
    assert.deepEqual(
      contentsOptions(folder, list),
      expected.flatMap((one) => ['--contents', one]),
    );
  });
}
