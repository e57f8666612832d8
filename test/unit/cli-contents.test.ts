/** Verbs of checkpoints whose GPU contents are in folders of their own. podman and the session are played. */

import assert from 'node:assert/strict';
import { existsSync, readdirSync, symlinkSync } from 'node:fs';
import { chmod, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { decodeManifest } from '../../src/manifest/codec.js';
import { rootsOf } from '../../src/manifest/elsewhere.js';
import { type ParentIndexes, parentIndexes } from '../../src/session/contents/parent.js';
import { requestedForDump, requestedForRestore } from '../../src/session/contents/requests.js';
import { claimFolder, contentsLink } from '../../src/session/control/folders.js';
import { entriesOf, tarOf, unpackTo } from './archive-builder.js';
import { cli, fakeRun } from './cli-context.js';
import {
  type Contents,
  checkpoint,
  detach,
  first,
  names,
  second,
  services,
} from './drained-archive.js';
import { temporaryFolder } from './paths.js';
import { bentHost } from './sysfs-tree.js';

const id = 'f00dfeed00112233445566778899aabbccddeeff00112233445566778899aabb';

interface Taken {
  readonly contents: Contents;
  readonly options?: readonly string[];
  readonly status?: number;
  /** The archive is not written, the image is in the container's bundle. */
  readonly inPlace?: boolean;
}

async function world(t: TestContext) {
  const top = await temporaryFolder(t);
  const run = join(top, 'run');
  const root = await bentHost(t, 'two-gpus', {});
  const bundle = join(top, id, 'userdata');
  await mkdir(bundle, { recursive: true });
  const inspected = JSON.stringify([{ Id: id, StaticDir: bundle, Name: 'job' }]);
  const programs = fakeRun({ 'podman container': inspected });
  /** `checkpoint --contents NAME`, with an archive of that name. */
  const take = async (name: string, { contents, options = [], status = 0, inPlace }: Taken) => {
    const archive = join(top, `${name}.tar`);
    const words = ['checkpoint', '--run', run, '--contents', join(top, name), ...options, 'job'];
    let asked: readonly string[] = [];
    const result = await cli([...words, '--export', archive], {
      native: services,
      run: programs,
      runThrough: async (_, args) => {
        asked = args;
        const { folder } = (await requestedForDump(process.pid, run, run)) ?? {};
        const indexes: ParentIndexes | undefined = await parentIndexes(process.pid, undefined, run);
        assert.ok(folder, 'a session finds the folder');
        const files = await detach(await checkpoint(t, contents, indexes), folder.path);
        await folder.close();
        if (inPlace === true) await unpackTo(bundle, files);
        else await writeFile(archive, await tarOf(entriesOf(files)));
        return status;
      },
    });
    assert.deepEqual(existsSync(run) ? readdirSync(run) : [], [], 'nothing stays behind');
    return { ...result, archive, asked, folder: join(top, name) };
  };
  const verb = (name: string, ...args: readonly string[]) =>
    cli([name, ...args], { native: services });
  return { top, run, root, bundle, programs, take, verb };
}

test('the contents go to the folder, and every verb names it where it is missing', async (t) => {
  const { root, take, verb } = await world(t);
  const { code, stderr, archive, folder, asked } = await take('a', { contents: first });
  assert.equal(code, 0, stderr);
  assert.deepEqual(asked, ['container', 'checkpoint', 'job', '--export', archive]);
  assert.deepEqual(readdirSync(folder), [...names]);
  const missing = /contents: amdgpu-pages-0-0000\.img and 1 more, \d+ bytes, are in a folder/;
  for (const args of [
    ['check', '--root', root, archive],
    ['restore', '--root', root, archive],
    ['verify', '--quiet', archive],
  ]) {
    const [name = '', ...rest] = args;
    const refused = await verb(name, ...rest);
    assert.equal(refused.code, 4, refused.stderr);
    assert.match(refused.stderr, missing);
    assert.match(refused.stderr, /--contents/);
  }
  const checked = await verb('check', '--root', root, '--contents', folder, archive);
  assert.equal(checked.code, 0, checked.stderr);
  assert.match(checked.stdout, /by: kfd-checkpoint restore --contents \S+\/a \S+\/a\.tar\n/);
  const verified = await verb('verify', '--quiet', '--contents', folder, archive);
  assert.equal(verified.code, 0, verified.stderr);
  assert.match(verified.stdout, /amdgpu-pages-0-0001\.img .* ok/);
  const shown = await verb('inspect', archive);
  assert.match(shown.stdout, missing);
});

test('a session finds the folder by its contents while podman restores, and not longer', async (t) => {
  const { run, root, take } = await world(t);
  const { archive, folder } = await take('a', { contents: first });
  const report = JSON.stringify({ contents: [folder] }).slice(1, -1);
  let roots: readonly string[] = [];
  const restore = (...args: readonly string[]) =>
    cli(['restore', '--root', root, '--run', run, '--format', 'json', ...args], {
      native: services,
      runThrough: async (_, words) => {
        assert.deepEqual(words, ['container', 'restore', '--import', archive, '--keep']);
        roots = rootsOf(decodeManifest(await manifestOf(archive)));
        const found = await requestedForRestore(1, roots, run);
        assert.deepEqual(
          found.map(({ name }) => name),
          [folder],
        );
        for (const one of found) await one.close();
        return 0;
      },
    });
  const restored = await restore('--contents', folder, archive, '--keep');
  assert.equal(restored.code, 0, restored.stderr);
  assert.ok(JSON.stringify(JSON.parse(restored.stdout)).includes(report), restored.stdout);
  assert.equal(roots.length, 2);
  assert.deepEqual(await requestedForRestore(1, roots, run), []);
  const both = await restore('--contents', folder, '--parent', archive, archive);
  assert.equal(both.code, 2);
  const many = await restore('--contents', folder, '--contents', folder, archive);
  assert.deepEqual([many.code, /E_USAGE/.test(many.stderr)], [2, true]);
});

async function manifestOf(archive: string): Promise<Buffer> {
  const bytes = await readFile(archive);
  const begin = bytes.indexOf('{\n  "schema_version"');
  return bytes.subarray(begin, bytes.indexOf('\n}\n', begin) + 3);
}

test('a parent whose contents are in a folder: saved by its indexes, restored with both folders', async (t) => {
  const { top, root, take, verb } = await world(t);
  const base = await take('base', { contents: first });
  const options = ['--parent-contents', base.folder];
  const later = await take('later', { contents: second, options });
  assert.equal(later.code, 0, later.stderr);
  assert.equal(decodeManifest(await manifestOf(later.archive)).parent?.archive, 'base');
  const check = (...folders: readonly string[]) =>
    verb('check', '--root', root, ...folders.flatMap((one) => ['--contents', one]), later.archive);
  const alone = await check(later.folder);
  assert.match(alone.stderr, /parent: contents that had not changed are in base/);
  const wrong = await check(later.folder, later.folder);
  assert.deepEqual([wrong.code, /its parent \w{32}: not in /.test(wrong.stderr)], [4, true]);
  const whole = await check(later.folder, base.folder);
  assert.equal(whole.code, 0, whole.stderr);
  assert.match(whole.stdout, /--contents \S+\/later --contents \S+\/base \S+\/later\.tar/);
  // Hints name what will be accepted.
  assert.match(alone.stderr, /--contents DIR for a parent in a folder/);
  const flat = await verb('flatten', later.archive, '--parent', base.archive, '-o', `${top}/flat`);
  assert.deepEqual([flat.code, /restore --contents/.test(flat.stderr)], [4, true], flat.stderr);
  const parent = ['checkpoint', '--parent', base.archive, 'job', '--export', join(top, 'x.tar')];
  const archive = await cli(parent, { native: services });
  assert.deepEqual([archive.code, /with --parent-contents/.test(archive.stderr)], [4, true]);
});

test('a parent in a folder serves a checkpoint in place, and an interruption is no damage', async (t) => {
  const { run, take } = await world(t);
  const { folder } = await take('base', { contents: first });
  const words = ['checkpoint', '--run', run, '--parent-contents', folder, 'job'];
  const asked: (readonly string[])[] = [];
  const through = async (_: string, args: readonly string[]) => asked.push(args) - 1;
  const done = await cli(words, { native: services, runThrough: through });
  assert.deepEqual([done.code, asked], [0, [['container', 'checkpoint', 'job']]], done.stderr);
  const cancel = new AbortController();
  cancel.abort();
  const cut = await cli(words, { native: services, runThrough: through, signal: cancel.signal });
  assert.match(cut.stderr, /reading was interrupted/);
  assert.deepEqual([cut.code, asked.length], [1, 1]);
});

test('a folder that stays empty is told', async (t) => {
  const { top, run } = await world(t);
  const words = ['checkpoint', '--run', run, '--contents', join(top, 'a'), 'job'];
  const done = await cli(words, { native: services, runThrough: async () => 0 });
  assert.equal(done.code, 0);
  assert.match(done.stderr, /\/a: stays empty: no GPU contents were saved\n/);
});

test('an image directory is restored by the name of its container', async (t) => {
  const { root, bundle, take, verb } = await world(t);
  const { folder } = await take('a', { contents: first, status: 125, inPlace: true });
  const image = join(bundle, 'checkpoint');
  const checked = await verb('check', '--root', root, '--contents', folder, image);
  assert.match(checked.stdout, /restore --contents \S+\/a CONTAINER\n/, checked.stderr);
});

test('a folder that cannot be used is refused before podman is asked', async (t) => {
  const { top, take, verb } = await world(t);
  const { folder } = await take('a', { contents: first });
  const never = (...args: readonly string[]) =>
    cli(['checkpoint', ...args, 'job', '--export', 'x'], {
      native: services,
      runThrough: async () => assert.fail('podman was asked'),
    });
  const refused = async (args: readonly string[], code: number, says: RegExp) => {
    const result = await never(...args);
    assert.equal(result.code, code, result.stderr);
    assert.match(result.stderr, says);
  };
  await refused(['--contents', folder], 2, /has pages files already/);
  await refused(['--contents', join(top, 'no/where')], 1, /no\/where/);
  await refused([], 2, /neither a parent nor a folder/);
  await refused(['--parent', 'a', '--parent-contents', folder], 2, /exclude each other/);
  await refused(['--parent', 'a', '--contents', join(top, 'b')], 2, /--parent and --contents excl/);
  await refused(['--parent-contents', join(top, 'none')], 4, /no such folder/);
  await mkdir(join(top, 'open'));
  await chmod(join(top, 'open'), 0o777);
  await refused(['--contents', join(top, 'open')], 1, /others may write to it/);
  await chmod(join(top, 'open'), 0o700);
  await refused(['--parent-contents', join(top, 'open')], 4, /has no GPU contents/);
  const bytes = await readFile(join(folder, names[0]));
  bytes[9000] = (bytes[9000] ?? 0) ^ 1;
  await writeFile(join(top, 'open', names[0]), bytes);
  await refused(['--parent-contents', join(top, 'open')], 5, /amdgpu-pages-0-0000\.img: /);
  const none = await verb('check', '--contents', folder);
  assert.match(none.stderr, /--contents: needs a checkpoint/);
});

test('a failed checkpoint leaves nothing, unless the container stopped and needs it', async (t) => {
  const failed = await world(t);
  const lost = await failed.take('a', { contents: first, status: 125 });
  assert.equal(lost.code, 125);
  assert.deepEqual(readdirSync(lost.folder), []);
  const stopped = await world(t);
  const kept = await stopped.take('a', { contents: first, status: 125, inPlace: true });
  assert.equal(kept.code, 125);
  assert.match(kept.stderr, /this brings it back: kfd-checkpoint restore --contents \S+\/a job\n/);
  assert.deepEqual(readdirSync(kept.folder), [...names]);
  const { run, root, programs } = stopped;
  const args = ['restore', '--root', root, '--run', run, '--contents', kept.folder, 'job'];
  const restored = await cli(args, {
    native: services,
    run: programs,
    runThrough: async (_, words) => {
      assert.deepEqual(words, ['container', 'restore', id]);
      assert.equal(readdirSync(run).length, 1);
      return 0;
    },
  });
  assert.equal(restored.code, 0, restored.stderr);
});

test('a podman that ends alone takes no contents from a session that still writes them', async (t) => {
  const { top, run, programs } = await world(t);
  const session = join(run, String(process.pid));
  for (const lives of [true, false]) {
    const folder = join(top, `lives-${lives}`);
    const pages = join(folder, names[0]);
    await cli(
      ['checkpoint', '--run', run, '--contents', folder, 'job', '--export', join(top, 'a.tar')],
      {
        native: services,
        run: programs,
        runThrough: async () => {
          await writeFile(pages, 'half of it');
          if (lives) {
            claimFolder(session);
            symlinkSync(folder, join(session, contentsLink));
          }
          return 143;
        },
      },
    );
    assert.equal(existsSync(pages), lives);
    await rm(session, { recursive: true, force: true });
  }
});
