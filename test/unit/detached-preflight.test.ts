/** Images with a parent, both with their contents in folders: what a restore finds before a task exists. */

import assert from 'node:assert/strict';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { OwnFolder } from '../../src/os/own-folder.js';
import { preflight } from '../../src/session/restore/preflight.js';
import { kfdVersion } from './dumped.js';
import {
  buffers,
  childParts,
  content,
  imageFiles,
  names,
  type Parts,
  soundParts,
} from './forged-image.js';
import { pagesFile } from './forged-pages.js';
import { temporaryFolder } from './paths.js';
import { bentHost } from './sysfs-tree.js';

interface Family {
  readonly base: Parts;
  readonly child: Parts;
}

/** The child's image, its contents, and those of its parent, in folders. */
async function family(t: TestContext, bend: (family: Family) => void = () => undefined) {
  const base = soundParts();
  const child = childParts(base);
  child.manifest.features = { required: ['detached', 'parent'], optional: [] };
  bend({ base, child });
  const top = await temporaryFolder(t);
  const folder = async (name: string, files: ReadonlyMap<string, Buffer> | [string, Buffer][]) => {
    await mkdir(join(top, name));
    for (const [file, bytes] of files) await writeFile(join(top, name, file), bytes);
    return join(top, name);
  };
  const isPages = ([name]: [string, unknown]) => name.startsWith('amdgpu-pages');
  const image = Object.entries(imageFiles(child)).filter((file) => !isPages(file));
  const folders = {
    image: await folder('image', image as [string, Buffer][]),
    own: await folder('own', [...child.files].filter(isPages)),
    parent: await folder('parent', [...base.files].filter(isPages)),
  };
  const host = { root: await bentHost(t, 'two-gpus', {}), kfdVersion };
  const check = (...given: readonly string[]) =>
    preflight(folders.image, {}, host, async () => given.map(named));
  return { ...folders, check };
}

const named = (path: string): OwnFolder => ({ path, name: path, close: async () => undefined });

test('a parent is found in its folder by its root, and each frame is read where it is stored', async (t) => {
  const { own, parent, check } = await family(t);
  const plan = await check(own, parent);
  const first = join(own, names.first);
  assert.deepEqual(plan?.pages.get(names.first), [first, join(parent, names.first)]);
  assert.deepEqual(plan?.pages.get(names.second), [join(own, names.second)]);
  await rm(join(parent, names.second));
  assert.ok(await check(own, parent), 'a file that nobody refers to');
});

test('a folder too few or too many, or the wrong one, is refused by name', async (t) => {
  const { own, parent, check } = await family(t);
  await assert.rejects(check(), { code: 'E_IMAGE_MISSING', message: /^contents: .*; parent: / });
  await assert.rejects(check(own), { code: 'E_IMAGE_MISSING', message: /^parent: .* base\.tar/ });
  await assert.rejects(check(own, own), {
    code: 'E_IMAGE_MISSING',
    message: /^amdgpu-pages-0-0000\.img: its parent [0-9a-f]{32}: not in /,
  });
  await assert.rejects(check(own, parent, own), { code: 'E_USAGE' });
  await rm(join(parent, names.first));
  await assert.rejects(check(own, parent), { code: 'E_IMAGE_MISSING' });
});

test('a grandparent that nobody names is missing', async (t) => {
  const { own, parent, check } = await family(t, ({ base, child }) => {
    const [first, ...others] = buffers[0] ?? [];
    const frames = first?.frames ?? [];
    const root = 'ab'.repeat(16);
    const { file } = pagesFile({ parent: root, buffers: [{ id: 0, frames }, ...others] });
    base.files.set(names.first, file);
    const again = childOf(base);
    child.files.set(names.first, again.files.get(names.first) ?? Buffer.alloc(0));
    Object.assign(child.manifest, {
      parent: again.manifest.parent,
      files: again.manifest.files,
    });
  });
  await assert.rejects(check(own, parent), {
    code: 'E_IMAGE_MISSING',
    message: /its parent (ab){16}: no folder is named for it/,
  });
});

/** As `childParts`, with the roots of what the base is by now. */
function childOf(base: Parts): Parts {
  for (const file of base.manifest.files) {
    const bytes = base.files.get(file.name);
    if (bytes === undefined || !file.name.startsWith('amdgpu-pages')) continue;
    const hex = bytes.subarray(-40, -24).toString('hex');
    Object.assign(file, { digest: { algo: 'xxh3-128', hex } });
  }
  return childParts(base);
}

test('references that lead nowhere, or to another content, are found before a task exists', async (t) => {
  const bent =
    (frame: object) =>
    ({ base, child }: Family) => {
      const root = base.manifest.files.find(({ name }) => name === names.first)?.digest.hex ?? '';
      const [first, ...others] = buffers[0] ?? [];
      const frames = [frame, ...(first?.frames.slice(1) ?? [])] as never;
      const { file } = pagesFile({ parent: root, buffers: [{ id: 0, frames }, ...others] });
      child.files.set(names.first, file);
      const hex = file.subarray(-40, -24).toString('hex');
      for (const one of child.manifest.files) {
        if (one.name !== names.first) continue;
        Object.assign(one, { size: file.length, digest: { algo: 'xxh3-128', hex } });
      }
    };
  for (const [frame, message] of [
    [{ like: content(1), reference: 99 }, /frame 0: refers to a frame that is not there/],
    [{ like: content(8), reference: 0 }, /frame 0: refers to another content/],
  ] as const) {
    const { own, parent, check } = await family(t, bent(frame));
    await assert.rejects(check(own, parent), { code: 'E_IMAGE_CORRUPT', message });
  }
});
