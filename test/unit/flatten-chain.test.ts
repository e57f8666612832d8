/** A checkpoint and its ancestors: which are found, and what is made of them. */

import assert from 'node:assert/strict';
import { readdir, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { type Chain, type FlattenPages, flattened } from '../../src/archive/flatten.js';
import { decodeManifest } from '../../src/manifest/codec.js';
import { plainCheckpoint } from './archive-builder.js';
import { files, names, root, written } from './chain-archives.js';

const [first, second] = names;

const pathsOf = (chain: Chain) => chain.map(({ contents }) => contents.path);

test('each ancestor lies beside the archive that names it, or is the next one that was named', async (t) => {
  const { at, find, work } = await written(t, {
    'tip.tar': files('middle.tar'),
    'middle.tar': files('base.tar'),
    'base.tar': files(),
    'other.tar': files(),
  });
  assert.deepEqual(pathsOf(await find('base.tar')), [at('base.tar')]);
  assert.deepEqual(pathsOf(await find('tip.tar')), ['tip.tar', 'middle.tar', 'base.tar'].map(at));
  const named = await find('tip.tar', 'middle.tar', 'other.tar');
  assert.deepEqual(pathsOf(named), ['tip.tar', 'middle.tar', 'other.tar'].map(at));
  assert.deepEqual(await readdir(work), [], 'a plain archive is read where it lies');
  const extra = (name: string, parents: number) => ({
    code: 'E_USAGE',
    message: `${at('other.tar')}: ${at(name)} needs ${parents} parents, not more`,
  });
  await assert.rejects(find('base.tar', 'other.tar'), extra('base.tar', 0));
  await assert.rejects(find('middle.tar', 'base.tar', 'other.tar'), extra('middle.tar', 1));
});

test('an ancestor that is not there, is another, or comes twice is named', async (t) => {
  const { at, find } = await written(t, {
    'tip.tar': files('gone.tar'),
    'loop.tar': files('loop'),
    'self.tar': files('self.tar'),
    'wrong.tar': files('base.tar', ({ parent }) => {
      Object.assign(parent?.files[0] as object, { root: 'f'.repeat(32) });
    }),
    'base.tar': files(),
  });
  await assert.rejects(find('none.tar'), {
    code: 'E_NOT_FOUND',
    message: `${at('none.tar')}: no such file or directory`,
  });
  await assert.rejects(find('tip.tar'), {
    code: 'E_IMAGE_MISSING',
    message: `${at('tip.tar')}: its parent gone.tar is not beside it`,
    hint: /^name it with --parent/,
  });
  await symlink('loop', at('loop'));
  await assert.rejects(find('loop.tar'), { code: 'ELOOP' });
  await assert.rejects(find('loop'), { code: 'ELOOP' });
  await assert.rejects(find('self.tar'), {
    code: 'E_IMAGE_CORRUPT',
    message: `${at('self.tar')}: is its own ancestor`,
  });
  await assert.rejects(find('wrong.tar'), {
    code: 'E_IMAGE_MISSING',
    message:
      `${at('base.tar')}: is not the parent: it has no pages file ${'f'.repeat(32)}, ` +
      `which ${first} refers to`,
    hint: 'name the archive that was given to "kfd-checkpoint checkpoint --parent"',
  });
});

test('64 ancestors are followed, and no more', async (t) => {
  const count = 66;
  const { at, find } = await written(
    t,
    Object.fromEntries(
      Array.from({ length: count }, (_, i) => [
        `${i}.tar`,
        files(i === count - 1 ? undefined : `${i + 1}.tar`),
      ]),
    ),
  );
  assert.equal((await find('1.tar')).length, 65);
  await assert.rejects(find('0.tar'), {
    code: 'E_IMAGE_CORRUPT',
    message: `${at('0.tar')}: more than 64 ancestors`,
  });
});

/** As the addon: takes parts, and says what it has written. */
function fakeFlatten(size: number) {
  const calls: { target: string; parts: unknown[]; signal: AbortSignal | undefined }[] = [];
  const flatten: FlattenPages = async (chain, target, signal) => {
    calls.push({ target, parts: [...chain], signal });
    const isFirst = target.endsWith(first);
    return {
      bufferIds: Uint32Array.from(isFirst ? [0, 1] : [2]),
      bufferSizes: Float64Array.from(isFirst ? [size, 4096] : [1048576]),
      fileBytes: isFirst ? 500 : 600,
      root: (isFirst ? 'a' : 'b').repeat(32),
    };
  };
  return { calls, flatten };
}

test('each pages file is written anew from its own parts, and the manifest knows them', async (t) => {
  const { find, work } = await written(t, {
    'tip.tar': files('middle.tar'),
    'middle.tar': files('base.tar', ({ parent }) => {
      Object.assign(parent as object, { files: [{ name: second, root: 'e'.repeat(32) }] });
    }),
    'base.tar': files(undefined, ({ files: all }) => {
      for (const file of all) if (file.name === second) file.digest.hex = 'e'.repeat(32);
    }),
  });
  const chain = await find('tip.tar');
  const { calls, flatten } = fakeFlatten(2097152);
  const { signal } = new AbortController();
  const made = await flattened(chain, flatten, work, signal);
  const siblings = chain.map(({ pages }) => [...pages.values()]);
  const part = (at: number, name: string) => ({
    ...chain[at]?.pages.get(name),
    siblings: siblings[at],
  });
  // The first one's contents are in the parent's file of that root, which has none in its own parent.
  assert.deepEqual(calls, [
    { target: join(work, `flat-${first}`), parts: [part(0, first), part(1, first)], signal },
    { target: join(work, `flat-${second}`), parts: [part(0, second)], signal },
  ]);
  const before = chain[0]?.contents.manifest;
  assert.deepEqual(made.manifest, {
    ...before,
    features: { required: ['other'], optional: ['x'] },
    parent: null,
    files: [
      before?.files[0],
      { name: first, size: 500, digest: { algo: 'xxh3-128', hex: 'a'.repeat(32) } },
      { name: second, size: 600, digest: { algo: 'xxh3-128', hex: 'b'.repeat(32) } },
    ],
  });
  const { 'checkpoint/kfd-manifest.json': text, ...others } = Object.fromEntries(made.files);
  assert.deepEqual(decodeManifest(text as Buffer), made.manifest);
  assert.deepEqual(others, {
    [`checkpoint/${first}`]: { path: join(work, `flat-${first}`), offset: 0, size: 500 },
    [`checkpoint/${second}`]: { path: join(work, `flat-${second}`), offset: 0, size: 600 },
  });
});

test('contents may be in a file of another name, and a checkpoint without a GPU has none', async (t) => {
  const [own, others] = ['c'.repeat(32), 'd'.repeat(32)];
  const { at, find, work } = await written(t, {
    'tip.tar': files('base.tar', ({ parent }) => {
      Object.assign(parent as object, { files: [{ name: first, root: others }] });
    }),
    'base.tar': files(undefined, ({ files: all }) => {
      for (const { name, digest } of all) {
        if (name === first) digest.hex = own;
        if (name === second) digest.hex = others;
      }
    }),
    'plain.tar': plainCheckpoint(),
  });
  const chain = await find('tip.tar');
  const { calls, flatten } = fakeFlatten(2097152);
  await flattened(chain, flatten, work);
  const [{ parts } = { parts: [] }] = calls;
  assert.deepEqual(
    parts.map((part) => (part as { root: string }).root),
    [root, others],
  );
  const [plain, ...more] = await find('plain.tar');
  assert.deepEqual([plain?.contents.path, plain?.pages, more], [at('plain.tar'), new Map(), []]);
});

test('what was written and is not what the manifest says, and a chain without its end, are refused', async (t) => {
  const { at, find, work } = await written(t, {
    'tip.tar': files('base.tar'),
    'base.tar': files(),
  });
  const chain = await find('tip.tar');
  await assert.rejects(flattened(chain, fakeFlatten(1).flatten, work), {
    code: 'E_IMAGE_CORRUPT',
    message: `${first}: size of buffer 0 is 1, the manifest says 2097152`,
  });
  const { flatten } = fakeFlatten(2097152);
  for (const none of [[], chain.slice(1)]) {
    await assert.rejects(flattened(none, flatten, work), {
      code: 'E_INTERNAL',
      message: 'flatten: there is no parent',
    });
  }
  const [tip, base] = chain;
  assert.ok(tip && base);
  const lost = [tip, { ...base, pages: new Map() }];
  await assert.rejects(flattened(lost, flatten, work), {
    code: 'E_IMAGE_MISSING',
    message: `${at('base.tar')}: ${first} is not in it`,
  });
});
