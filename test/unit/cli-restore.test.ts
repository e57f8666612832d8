import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { chmod, mkdir, open, readFile, stat, statfs, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { readContents } from '../../src/archive/contents.js';
import { decodeManifest } from '../../src/manifest/codec.js';
import { archive, gpuCheckpoint, plainCheckpoint, unpackTo } from './archive-builder.js';
import { cli, fakeRun } from './cli-context.js';
import { temporaryFolder } from './paths.js';
import { rawTar } from './raw-tar.js';
import { image, options, sample } from './restorable.js';
import { bentHost } from './sysfs-tree.js';

const moved = { 'sys/class/kfd/kfd/dev': '511:0\n' };

/** Runs the verb with a stand-in for podman, which looks at the archive it is given. */
async function restore(
  path: string,
  root: string,
  args: readonly string[] = [],
  status = 0,
  signal = new AbortController().signal,
) {
  let given: readonly string[] = [];
  let bytes: Buffer | undefined;
  let besides: readonly string[] = [];
  const result = await cli(['restore', '--root', root, path, ...args], {
    signal,
    runThrough: async (command, words, descriptor) => {
      given = [command, ...words];
      besides = readdirSync(join(path, '..'));
      if (descriptor !== undefined) bytes = readFileSync(`/proc/self/fd/${descriptor}`);
      return status;
    },
  });
  return { ...result, given, bytes, besides };
}

test('where the numbers are right podman gets the archive itself', async (t) => {
  const path = await archive(t, sample());
  const flags = ['--keep', '--name', 'two', '--tcp-established'];
  const { code, given, bytes } = await restore(path, await bentHost(t, 'two-gpus', {}), flags);
  assert.equal(code, 0);
  assert.deepEqual(given, ['podman', 'container', 'restore', '--import', path, ...flags]);
  assert.equal(bytes, undefined);
  const plain = await archive(t, plainCheckpoint());
  assert.deepEqual((await restore(plain, await bentHost(t, 'no-kfd', {}))).given.slice(-1), [
    plain,
  ]);
});

test('where they are not it gets a copy that has them, which is never seen in a folder', async (t) => {
  const path = await archive(t, sample());
  const { code, given, bytes, besides, stderr } = await restore(
    path,
    await bentHost(t, 'two-gpus', moved),
    ['--keep'],
  );
  assert.equal(code, 0, stderr);
  assert.deepEqual(given.slice(3), ['--import', '/proc/self/fd/3', '--keep']);
  assert.deepEqual(besides, ['job.tar']);
  assert.match(stderr, /^\/dev\/kfd: 234:0 becomes 511:0$/m);
  const copy = join(await temporaryFolder(t), 'copy.tar');
  await writeFile(copy, bytes ?? '');
  const names: string[] = [];
  const seen: Record<string, string> = {};
  const contents = await readContents(copy, options, async ({ name }, content) => {
    names.push(name);
    const chunks: Buffer[] = [];
    for await (const chunk of content) chunks.push(chunk);
    seen[name] = Buffer.concat(chunks).toString('latin1');
  });
  assert.equal(contents.manifest?.devices.kfd_major, 511);
  assert.match(contents.documents.spec ?? '', /"major":511/);
  const { files } = gpuCheckpoint();
  for (const name of ['checkpoint/kfd-state-0.img', 'checkpoint/amdgpu-pages-0-0000.img']) {
    assert.equal(seen[name], files[name]);
  }
  assert.ok(gunzipSync(Buffer.from(seen[image] ?? '', 'latin1')).includes('0000777'));
});

test("podman's status is passed on without a word of ours", async (t) => {
  const path = await archive(t, sample());
  const { code, stdout, stderr } = await restore(path, await bentHost(t, 'two-gpus', {}), [], 125);
  assert.deepEqual([code, stdout, stderr], [125, '', '']);
});

test('what cannot be is refused before podman is asked', async (t) => {
  const path = await archive(t, sample());
  const refused = async (root: string, args: string[], target = path) => {
    const { code, given, stderr } = await restore(target, root, args);
    await assert.deepEqual(given, []);
    return { code, stderr };
  };
  const root = await bentHost(t, 'two-gpus', moved);
  assert.equal((await refused(root, ['--import', 'x'])).code, 2);
  for (const flag of ['-i=x', '-i', '-ix', '-kix', '-kli', '--import=x']) {
    assert.equal((await refused(root, [flag, 'x'])).code, 2, flag);
  }
  assert.equal((await refused(root, [], join(path, '..'))).code, 2);
  assert.equal((await refused(root, [], `${path}.gone`)).code, 4);
  const one = await refused(await bentHost(t, 'one-gpu', moved), []);
  assert.equal(one.code, 3);
  assert.match(
    one.stderr,
    /would not restore here: gpus: 2 are needed, 1 on this host \(and 1 more\)/,
  );
  const { [image]: _, ...without } = sample();
  const missing = await refused(root, [], await archive(t, without));
  assert.equal(missing.code, 1);
  assert.match(missing.stderr, /has its node 234:0/);
  const { 'spec.dump': __, ...cut } = sample();
  assert.match((await refused(root, [], await archive(t, cut))).stderr, /spec\.dump is missing/);
  process.env['TMPDIR'] = '/nonexistent';
  t.after(() => delete process.env['TMPDIR']);
  assert.match((await refused(root, [])).stderr, /set TMPDIR to a folder with room/);
});

test('a container in place is changed where it lies, and can be again', async (t) => {
  const id = 'f00dfeed00112233445566778899aabbccddeeff00112233445566778899aabb';
  const bundle = join(await temporaryFolder(t), id, 'userdata');
  const { 'config.dump': _, 'spec.dump': spec = '', ...files } = sample();
  await unpackTo(bundle, { ...files, 'config.json': spec });
  await chmod(join(bundle, 'config.json'), 0o600);
  const root = await bentHost(t, 'two-gpus', moved);
  const inspected = JSON.stringify([{ Id: id, StaticDir: bundle, Name: 'job' }]);
  const again = async (name: string) => {
    let given: readonly string[] = [];
    const result = await cli(['restore', '--root', root, name, '--keep'], {
      run: fakeRun({ 'podman container': inspected }),
      runThrough: async (command, words) => {
        given = [command, ...words];
        return 0;
      },
    });
    return { ...result, given };
  };
  const image = join(bundle, 'checkpoint/tmpfs-dev-38.tar.gz.img');
  const manifest = join(bundle, 'checkpoint/kfd-manifest.json');
  const before = await readFile(manifest);
  for (const name of ['job', bundle]) {
    const { code, given, stderr } = await again(name);
    assert.equal(code, 0, stderr);
    assert.deepEqual(given, ['podman', 'container', 'restore', '--keep', id]);
  }
  assert.match(await readFile(join(bundle, 'config.json'), 'utf8'), /"major":511/);
  assert.equal((await stat(join(bundle, 'config.json'))).mode & 0o777, 0o600);
  assert.ok(gunzipSync(await readFile(image)).includes('0000777'));
  assert.equal(decodeManifest(await readFile(manifest)).devices.kfd_major, 511);
  // Interrupted before the manifest was written: all is done again.
  await writeFile(manifest, before);
  assert.equal((await again('job')).code, 0);
  assert.equal(decodeManifest(await readFile(manifest)).devices.kfd_major, 511);
});

test('what is neither a file nor a container is not found; podman that says nonsense is named', async (t) => {
  const folder = await temporaryFolder(t);
  const status = async (name: string, outputs: Record<string, string | number>) =>
    (await cli(['restore', name], { run: fakeRun(outputs) })).code;
  assert.equal(await status(join(folder, 'gone'), {}), 4);
  assert.equal(await status('job', { 'podman container': 125 }), 4);
  assert.equal(await status('-job', { 'podman container': '[]' }), 2);
  for (const output of ['', '[]', '{}', '[{"Id":1}]']) {
    assert.equal(await status('job', { 'podman container': output }), 3, output);
  }
});

test('podman that is missing, or slow, is no reason to say that there is no such container', async () => {
  const missing = await cli(['restore', 'job']);
  assert.equal(missing.code, 3);
  assert.match(missing.stderr, /podman, which may know it, is missing/);
  const slow = await cli(['restore', 'job'], {
    run: async (_command, _args, options) => {
      assert.equal(options?.timeoutMs, 60_000);
      return { status: undefined, stdout: '', stderr: '' };
    },
  });
  assert.equal(slow.code, 6);
  assert.match(slow.stderr, /podman: did not describe container job in 60 s/);
});

test('a folder that is named like a container does not hide it', async (t) => {
  const folder = await temporaryFolder(t);
  const bundle = join(folder, 'bundle');
  await unpackTo(bundle, plainCheckpoint());
  await mkdir(join(folder, 'job'));
  const before = process.cwd();
  process.chdir(folder);
  t.after(() => process.chdir(before));
  const inspected = JSON.stringify([{ Id: 'f00d', StaticDir: bundle }]);
  let given: readonly string[] = [];
  const { code, stderr } = await cli(
    ['restore', '--root', await bentHost(t, 'no-kfd', {}), 'job'],
    {
      run: fakeRun({ 'podman container': inspected }),
      runThrough: async (_, words) => {
        given = words;
        return 0;
      },
    },
  );
  assert.equal(code, 0, stderr);
  assert.deepEqual(given, ['container', 'restore', 'f00d']);
});

test('a map is a reason to rewrite although no number differs', async (t) => {
  const path = await archive(t, sample());
  const root = await bentHost(t, 'two-gpus', {});
  let bytes: Buffer | undefined;
  const map = 'renderD128=renderD128,renderD129=renderD129';
  await cli(['restore', '--root', root, '--gpu-map', map, path], {
    runThrough: async (_command, _args, descriptor) => {
      bytes = readFileSync(`/proc/self/fd/${descriptor}`);
      return 0;
    },
  });
  const copy = join(await temporaryFolder(t), 'copy.tar');
  await writeFile(copy, bytes ?? '');
  assert.deepEqual((await readContents(copy, options)).manifest?.devices.assigned, [
    { gpu: 0, render_minor: 128 },
    { gpu: 1, render_minor: 129 },
  ]);
});

test('without room for a copy nothing is written, and both sizes are named', async (t) => {
  const path = await archive(t, sample());
  const { bavail, bsize } = await statfs(join(path, '..'));
  // A file with a hole: larger than what is free, and nearly nothing on the disk.
  const bytes = bavail * bsize + (1 << 30);
  const header = rawTar([{ name: 'large', size: bytes }]).subarray(0, 512);
  const file = await open(path, 'r+');
  const at = (await file.stat()).size - 1024;
  await file.write(header, 0, 512, at);
  await file.truncate(at + 512 + Math.ceil(bytes / 512) * 512 + 1024);
  await file.close();
  const root = await bentHost(t, 'two-gpus', moved);
  // Without the refusal it would fill the disk.
  const signal = AbortSignal.timeout(3000);
  const { code, given, stderr } = await restore(path, root, [], 0, signal);
  assert.deepEqual([code, given], [1, []]);
  assert.match(stderr, /no room for a copy of the archive: .*iB are needed, .*iB are free/);
  assert.match(stderr, /set TMPDIR to a folder with room/);
});

test('no copy of an archive is begun where there is no room for it', async (t) => {
  const path = await archive(t, sample());
  const root = await bentHost(t, 'two-gpus', moved);
  process.env['TMPDIR'] = '/proc'; // a file system without a free byte
  t.after(() => delete process.env['TMPDIR']);
  const { code, given, stderr } = await restore(path, root);
  assert.deepEqual([code, given], [1, []]);
  assert.match(
    stderr,
    /^Error: \/proc: no room for a copy of the archive: .* are needed, 0 B are free/,
  );
});
