/** Pages files of a chain: what is unpacked of compressed archives, what room it takes, what is refused. */

import assert from 'node:assert/strict';
import fs, { mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { readWithPlaces, withPages } from '../../src/archive/pages-parts.js';
import { entriesOf, tarOf } from './archive-builder.js';
import { files, names, options, root, written } from './chain-archives.js';
import { patched } from './patched.js';

const [, second] = names;

test('pages files of compressed archives are unpacked, each under a name of its own', async (t) => {
  const { at, find, work } = await written(t, {
    'tip.tar.gz': files('base.tar.gz'),
    'base.tar.gz': files(),
  });
  const chain = await find('tip.tar.gz');
  assert.equal(chain.length, 2);
  for (const [i, { contents, pages }] of chain.entries()) {
    assert.equal(contents.path, at(i === 0 ? 'tip.tar.gz' : 'base.tar.gz'));
    assert.deepEqual(
      [...pages],
      names.map((name, gpu) => {
        const path = join(work, `${i}-${name}`);
        return [name, { path, offset: 0, size: 19, process: 0, gpu, root }];
      }),
    );
    const [path = '', other = ''] = [...pages.values()].map((part) => part.path);
    assert.equal(await readFile(path, 'utf8'), 'PAGES 0 0 2 2101248');
    assert.equal(await readFile(other, 'utf8'), 'PAGES 0 1 1 1048576');
    assert.equal((await stat(path)).mode & 0o777, 0o600);
  }
  assert.equal((await readdir(work)).length, 4);
});

test('room is needed for what is unpacked alone, of all archives together', async (t) => {
  const { find, work } = await written(t, {
    'tip.tar.gz': files('middle.tar'),
    'middle.tar': files('base.tar.gz'),
    'base.tar.gz': files(),
  });
  let free = 4 * 19;
  const statfs = async (path: string) => {
    assert.equal(path, work);
    return { bavail: free / 2, bsize: 2 };
  };
  patched(t, fs, { statfs: statfs as unknown as typeof fs.statfs });
  assert.equal((await find('tip.tar.gz')).length, 3);
  await rm(work, { recursive: true });
  await mkdir(work);
  free -= 2;
  await assert.rejects(find('tip.tar.gz'), {
    code: 'E_IO',
    message: `${work}: no room for the GPU contents: needs 76 bytes, 74 are free`,
    hint: 'set TMPDIR to a folder with more room',
  });
  assert.deepEqual(await readdir(work), []);
});

test('a pages file that is missing, cut, damaged or of another size is named', async (t) => {
  const sound = files();
  const image = (content: string) => ({ ...sound, [`checkpoint/${second}`]: content });
  const { [`checkpoint/${second}`]: _, ...without } = sound;
  const { at, find } = await written(t, {
    'missing.tar': without,
    'short.tar': image('PAGES'),
    'damaged.tar.gz': image('xxxxx 0 1 1 1048576'),
    'plain.tar': image('xxxxx 0 1 1 1048576'),
  });
  const refused = (name: string, reason: string) => ({
    code: 'E_IMAGE_CORRUPT',
    message: `${at(name)}: ${second}: ${reason}`,
    hint: 'use another copy of the archive',
  });
  await assert.rejects(find('missing.tar'), {
    code: 'E_IMAGE_MISSING',
    message: `${at('missing.tar')}: ${second} is not in it`,
  });
  await assert.rejects(find('short.tar'), refused('short.tar', 'is 5 bytes, was 19 when sealed'));
  const checksum = 'pages file: frame 0: wrong checksum';
  await assert.rejects(find('damaged.tar.gz'), refused('damaged.tar.gz', checksum));
  // Whoever flattens a plain one checks every frame of it.
  assert.equal((await find('plain.tar')).length, 1);
  const cut = await written(t, { 'cut.tar.gz': image('PAGES 0'.padEnd(19, '0')) });
  await assert.rejects(cut.find('cut.tar.gz'), {
    code: 'E_IMAGE_CORRUPT',
    message: `${cut.at('cut.tar.gz')}: ${second}: pages file: cut`,
  });
});

test('an archive that another replaces before it is unpacked is not taken for the first', async (t) => {
  const { at, work } = await written(t, { 'a.tar.gz': files() });
  const { [`checkpoint/${second}`]: _, ...without } = files();
  const known = await readWithPlaces(at('a.tar.gz'), options);
  for (const [other, reason] of [
    [without, 'went away while it was read'],
    [{ ...files(), [`checkpoint/${second}`]: 'PAGES' }, 'changed while it was read'],
  ] as const) {
    await writeFile(at('b'), gzipSync(await tarOf(entriesOf(other))));
    await rename(at('b'), at('a.tar.gz'));
    await assert.rejects(withPages(known, options, work, `${reason}-`), {
      code: 'E_IMAGE_CORRUPT',
      message: `${at('a.tar.gz')}: ${second}: ${reason}`,
    });
  }
});
