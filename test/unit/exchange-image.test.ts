/** Files of a container's bundle that are exchanged where they lie: all of them or none, whatever fails. */

import assert from 'node:assert/strict';
import fs, {
  chmod,
  lstat,
  mkdir,
  readdir,
  readFile,
  readlink,
  stat,
  symlink,
  writeFile,
} from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { readBundleSpec, replaceInPlace, replaceSpec } from '../../src/archive/in-place.js';
import { exchangeImage, recoverImage } from '../../src/archive/in-place-image.js';
import type { Contents } from '../../src/archive/rewrite.js';
import { unpackTo } from './archive-builder.js';
import { patched } from './patched.js';
import { temporaryFolder } from './paths.js';

const old = {
  'config.json': '{"old":1}',
  'checkpoint/kfd-manifest.json': 'old manifest',
  'checkpoint/pages-1.img': 'old pages',
  'checkpoint/core-1.img': 'core',
  'checkpoint/folder/pages-1.img': 'below',
};

/** A bundle with modes and a link, and with a file for new pages outside of it. */
async function sample(t: TestContext) {
  const folder = await temporaryFolder(t);
  const bundle = join(folder, 'bundle');
  await unpackTo(bundle, old);
  const image = join(bundle, 'checkpoint');
  await symlink('../nowhere', join(image, 'parent'));
  await chmod(image, 0o750);
  await chmod(join(image, 'folder'), 0o775);
  const made = join(folder, 'made');
  await writeFile(made, 'new pages');
  const pages = { path: made, offset: 0, size: 9 };
  return { bundle, image, made, pages };
}

/** Contents by name, of links their target. */
async function listed(image: string): Promise<Record<string, string>> {
  const found: Record<string, string> = {};
  for (const name of (await readdir(image)).sort()) {
    const path = join(image, name);
    const kind = await lstat(path);
    if (kind.isDirectory()) {
      for (const [below, text] of Object.entries(await listed(path)))
        found[`${name}/${below}`] = text;
    } else
      found[name] = kind.isSymbolicLink() ? await readlink(path) : await readFile(path, 'utf8');
  }
  return found;
}

const whole = {
  'core-1.img': 'core',
  'folder/pages-1.img': 'below',
  'kfd-manifest.json': 'old manifest',
  'pages-1.img': 'old pages',
  parent: '../nowhere',
};
const changed = { ...whole, 'kfd-manifest.json': 'new manifest', 'pages-1.img': 'new pages' };
const replacements = (pages: Contents) =>
  new Map<string, Contents>([
    ['config.dump', Buffer.from('not of the image')],
    ['checkpoint/kfd-manifest.json', Buffer.from('new manifest')],
    ['checkpoint/pages-1.img', pages],
  ]);

test('the image gets the new files, and all else is as it was', async (t) => {
  const { bundle, image, made, pages } = await sample(t);
  const core = await stat(join(image, 'core-1.img'));
  const before = process.umask(0o077);
  t.after(() => process.umask(before));
  await exchangeImage(bundle, replacements(pages));
  assert.deepEqual(await listed(image), changed);
  assert.deepEqual((await readdir(bundle)).sort(), ['checkpoint', 'config.json']);
  assert.equal((await stat(image)).mode & 0o7777, 0o750);
  assert.equal((await stat(join(image, 'folder'))).mode & 0o7777, 0o775);
  assert.equal((await stat(join(image, 'kfd-manifest.json'))).mode & 0o7777, 0o600);
  assert.equal((await stat(join(image, 'core-1.img'))).ino, core.ino, 'nothing is copied');
  await assert.rejects(stat(made), { code: 'ENOENT' }, 'it was moved');
});

test('new files are on the disk before the image is, and that before the old one goes', async (t) => {
  const { bundle, pages } = await sample(t);
  const steps: string[] = [];
  const note = (step: string, path: unknown) => {
    const name = String(path).slice(bundle.length + 1);
    steps.push(`${step} ${name.replace('.kfd-checkpoint-', '') || 'bundle'}`);
  };
  const { open, rename, rm } = fs;
  const handles = (await import('node:fs')).promises;
  const watch = (async (path: string, ...rest: []) => {
    const handle = await open(path, ...rest);
    const [sync, close] = [handle.sync.bind(handle), handle.close.bind(handle)];
    let isOpen = true;
    handle.sync = async () => {
      note('sync', path);
      await sync();
    };
    handle.close = async () => {
      isOpen = false;
      await close();
    };
    t.after(() => assert.ok(!isOpen, path));
    return handle;
  }) as typeof open;
  assert.equal(handles.open, open);
  patched(t, fs, {
    open: watch,
    rename: async (from, to) => {
      note('rename', to);
      await rename(from, to);
    },
    rm: async (path, options) => {
      note('rm', path);
      await rm(path, options);
    },
  });
  await exchangeImage(bundle, replacements(pages));
  assert.deepEqual(steps, [
    'rm next',
    'sync next/kfd-manifest.json',
    'rename next/pages-1.img',
    'sync next/pages-1.img',
    'sync next',
    'rename last',
    'rename checkpoint',
    'sync bundle',
    'rm last',
  ]);
});

test('a file of another file system is copied', async (t) => {
  const { bundle, image, made, pages } = await sample(t);
  const { rename } = fs;
  const error = (code: string) => Object.assign(new Error(code), { code });
  let code = 'EXDEV';
  patched(t, fs, {
    rename: async (from, to) => {
      if (from === made) throw error(code);
      await rename(from, to);
    },
  });
  await exchangeImage(bundle, replacements(pages));
  assert.deepEqual(await listed(image), changed);
  assert.equal(await readFile(made, 'utf8'), 'new pages', 'it stays');
  code = 'EIO';
  await assert.rejects(exchangeImage(bundle, replacements(pages)), { code: 'EIO' });
  assert.deepEqual((await readdir(bundle)).sort(), ['checkpoint', 'config.json']);
});

test('whatever fails, the image is the old one, and nothing lies beside it', async (t) => {
  const { bundle, image, made, pages } = await sample(t);
  const assertOld = async (what: string) => {
    assert.deepEqual(await listed(image), whole, what);
    assert.deepEqual((await readdir(bundle)).sort(), ['checkpoint', 'config.json'], what);
  };
  const part = replacements({ path: made, offset: 1, size: 8 });
  await assert.rejects(exchangeImage(bundle, part), {
    code: 'E_INTERNAL',
    message: `${made}: is a part of a file`,
  });
  await assertOld('a part of a file');
  const gone = replacements({ ...pages, path: `${made}.gone` });
  await assert.rejects(exchangeImage(bundle, gone), { code: 'ENOENT' });
  await assertOld('a file that went away');
  const { rename } = fs;
  let left = 0;
  const fail = new Error('rename');
  patched(t, fs, {
    rename: async (from, to) => {
      if (left-- === 0) throw fail;
      await rename(from, to);
    },
  });
  // The file, the old image, and the new one: then the old one has its name already lost.
  for (const number of [2, 1, 0]) {
    await writeFile(made, 'new pages');
    left = number;
    await assert.rejects(exchangeImage(bundle, replacements(pages)), fail);
    await assertOld(`rename ${number}`);
  }
});

test('what an interrupted exchange has left is finished or undone', async (t) => {
  const { bundle, image, pages } = await sample(t);
  const beside = async (...names: string[]) => {
    for (const name of names)
      await mkdir(join(bundle, `.kfd-checkpoint-${name}`, 'folder'), { recursive: true });
  };
  await recoverImage(bundle);
  await beside('next', 'last');
  await recoverImage(bundle);
  assert.deepEqual(await listed(image), whole);
  assert.deepEqual((await readdir(bundle)).sort(), ['checkpoint', 'config.json']);
  await fs.rename(image, join(bundle, '.kfd-checkpoint-last'));
  await beside('next');
  await recoverImage(bundle);
  assert.deepEqual(await listed(image), whole);
  assert.deepEqual((await readdir(bundle)).sort(), ['checkpoint', 'config.json']);
  // An exchange begins with that.
  await beside('next', 'last');
  await exchangeImage(bundle, replacements(pages));
  assert.deepEqual(await listed(image), changed);
});

test('a folder that cannot be looked at is no missing one', async (t) => {
  const { bundle } = await sample(t);
  const error = Object.assign(new Error('EIO'), { code: 'EIO' });
  patched(t, fs, {
    access: async () => {
      throw error;
    },
  });
  await assert.rejects(recoverImage(bundle), error);
});

test('in place, the spec is first and the manifest last, each with its mode', async (t) => {
  const { bundle, image } = await sample(t);
  await chmod(join(bundle, 'config.json'), 0o640);
  await chmod(join(image, 'pages-1.img'), 0o604);
  const written: string[] = [];
  const { promises } = await import('node:fs');
  const { rename } = promises;
  promises.rename = async (from, to) => {
    written.push(String(to).slice(bundle.length + 1));
    await rename(from, to);
  };
  t.after(() => Object.assign(promises, { rename }));
  await replaceInPlace(
    bundle,
    new Map([
      ['checkpoint/kfd-manifest.json', Buffer.from('new manifest')],
      ['config.dump', Buffer.from('of podman')],
      ['checkpoint/pages-1.img', Buffer.from('new pages')],
      ['spec.dump', Buffer.from('{"new":1}')],
    ]),
  );
  assert.deepEqual(written, [
    'config.json',
    'checkpoint/pages-1.img',
    'checkpoint/kfd-manifest.json',
  ]);
  assert.deepEqual(await listed(image), changed);
  assert.equal(await readBundleSpec(bundle), '{"new":1}');
  assert.equal((await stat(join(bundle, 'config.json'))).mode & 0o7777, 0o640);
  assert.equal((await stat(join(image, 'pages-1.img'))).mode & 0o7777, 0o604);
  assert.deepEqual((await readdir(bundle)).sort(), ['checkpoint', 'config.json']);
  written.length = 0;
  await replaceSpec(bundle, new Map([['checkpoint/core-1.img', Buffer.from('x')]]));
  assert.deepEqual(written, [], 'there is no new spec');
});

test('the spec of a bundle is bounded, and must be text', async (t) => {
  const { bundle } = await sample(t);
  const path = join(bundle, 'config.json');
  await writeFile(path, ' '.repeat((4 << 20) + 1));
  await assert.rejects(readBundleSpec(bundle), {
    code: 'E_IMAGE_CORRUPT',
    message: `${path}: larger than 4194304 bytes`,
  });
  await writeFile(path, Buffer.of(0xff));
  await assert.rejects(readBundleSpec(bundle), { message: 'config.json: not UTF-8' });
  await fs.rm(path);
  await assert.rejects(readBundleSpec(bundle), { code: 'ENOENT' });
});
