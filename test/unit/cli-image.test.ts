import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import type { CommandContext } from '../../src/cli/context.js';
import { type Run, runThrough } from '../../src/os/exec.js';
import { entriesOf, tarOf, unpackTo } from './archive-builder.js';
import { cli, errorIn } from './cli-context.js';
import { type Image, layerType, layout } from './oci-image.js';
import { temporaryFolder } from './paths.js';
import { sample } from './restorable.js';
import { bentHost } from './sysfs-tree.js';

const moved = { 'sys/class/kfd/kfd/dev': '511:0\n' };
const checkpoint = () => tarOf(entriesOf(sample()));

/** Runs a verb with a stand-in for podman. tar is the real one. */
async function run(args: readonly string[], over: Partial<CommandContext> = {}) {
  const given: string[][] = [];
  let bytes: Buffer | undefined;
  const result = await cli(args, {
    runThrough: async (command, words, descriptor, signal) => {
      if (command === 'tar') return runThrough(command, words, descriptor, signal);
      given.push([command, ...words]);
      if (descriptor !== undefined) bytes = readFileSync(`/proc/self/fd/${descriptor}`);
      return 0;
    },
    ...over,
  });
  return { ...result, given, bytes };
}

/** A layout with one image of the sample. */
async function sampleLayout(t: TestContext, ...more: Image[]): Promise<[string, string]> {
  const dir = join(await temporaryFolder(t), 'image');
  const [layer = ''] = await layout(dir, [{ layers: [{ bytes: await checkpoint() }] }, ...more]);
  return [dir, layer];
}

test('the reading verbs take a checkpoint image in a layout, and name it as the user does', async (t) => {
  const [dir] = await sampleLayout(t);
  const root = await bentHost(t, 'two-gpus', {});
  const name = `oci:${dir}`;
  for (const verb of ['inspect', 'verify', 'check']) {
    const where = verb === 'check' ? ['--root', root] : [];
    const { code, stdout, stderr } = await run([verb, '--format', 'json', ...where, name]);
    assert.equal(code, 0, stderr);
    const { path, source } = JSON.parse(stdout);
    assert.equal(path ?? source.path, name, verb);
  }
  const { stdout } = await run(['check', '--root', root, name]);
  assert.match(stdout, new RegExp(`would restore here by: kfd-checkpoint restore ${name}\n`));
});

test('a layer of a layout is the archive that podman gets, or what its copy is made of', async (t) => {
  const [dir, layer] = await sampleLayout(t);
  const here = await run(['restore', '--root', await bentHost(t, 'two-gpus', {}), `oci:${dir}`]);
  assert.deepEqual([here.code, here.bytes], [0, undefined], here.stderr);
  assert.deepEqual(here.given, [['podman', 'container', 'restore', '--import', layer]]);
  const root = await bentHost(t, 'two-gpus', moved);
  const there = await run(['restore', '--root', root, `oci:${dir}`, '--keep']);
  assert.equal(there.code, 0, there.stderr);
  assert.deepEqual(there.given[0]?.slice(3), ['--import', '/proc/self/fd/3', '--keep']);
  assert.ok(there.bytes?.includes('"kfd_major":511'));
});

test('layers may be compressed, and of the kinds that docker and buildah write', async (t) => {
  const bytes = gzipSync(await checkpoint());
  for (const mediaType of [
    `${layerType}+gzip`,
    'application/vnd.docker.image.rootfs.diff.tar.gzip',
  ]) {
    const dir = join(await temporaryFolder(t), 'image');
    const type = 'application/vnd.docker.distribution.manifest.v2+json';
    await layout(dir, [{ mediaType: type, layers: [{ bytes, mediaType }] }]);
    assert.equal((await run(['inspect', `oci:${dir}`])).code, 0, mediaType);
  }
});

test('an image in an archive is unpacked for as long as it is needed', async (t) => {
  const [dir] = await sampleLayout(t);
  const folder = join(await temporaryFolder(t), 'here');
  await mkdir(folder);
  const file = join(folder, 'image.tar');
  execFileSync(
    'tar',
    ['-C', dir, '-cf', file, '.']
      .map((word) => (word === '.' ? '--transform=s,^\\./,,' : word))
      .concat('.'),
  );
  const root = await bentHost(t, 'two-gpus', {});
  const { code, stdout } = await run(['check', '--root', root, `oci-archive:${file}`]);
  assert.equal(code, 0);
  assert.match(stdout, new RegExp(`restore here by: kfd-checkpoint restore oci-archive:${file}\n`));
  const { given } = await run(['restore', '--root', root, `oci-archive:${file}`]);
  assert.match(
    given[0]?.at(-1) ?? '',
    /\/here\/\.kfd-checkpoint-\w+\/blobs\/sha256\/[0-9a-f]{64}$/,
  );
  assert.deepEqual(readdirSync(folder), ['image.tar']);
});

test('an archive without an image is told, and nothing of it stays', async (t) => {
  const folder = await temporaryFolder(t);
  const file = join(folder, 'image.tar');
  await writeFile(file, await checkpoint());
  const foreign = await run(['inspect', `oci-archive:${file}`]);
  assert.equal(foreign.code, 1);
  assert.match(foreign.stderr, /index\.json cannot be unpacked/);
  assert.equal((await run(['inspect', `oci-archive:${file}.gone`])).code, 4);
  assert.equal((await run(['inspect', `oci-archive:${folder}`])).code, 5);
  assert.deepEqual(readdirSync(folder), ['image.tar']);
});

test('an interrupt while an image is unpacked ends as one, and nothing stays', async (t) => {
  const folder = await temporaryFolder(t);
  const file = join(folder, 'image.tar');
  await writeFile(file, await checkpoint());
  const interrupted = new AbortController();
  const { code, stderr } = await run(['inspect', '--format', 'json', `oci-archive:${file}`], {
    signal: interrupted.signal,
    runThrough: async () => {
      interrupted.abort();
      return 143;
    },
  });
  assert.deepEqual([code, errorIn(stderr).code], [1, 'E_CANCELLED']);
  assert.deepEqual(readdirSync(folder), ['image.tar']);
});

test('of several images one is named by its tag', async (t) => {
  const other = { layers: [{ bytes: Buffer.from('no tar') }] };
  const [dir] = await sampleLayout(t, { ...other, tag: 'b' }, { ...other, tag: 'c' });
  const several = await run(['inspect', `oci:${dir}`]);
  assert.equal(several.code, 2);
  assert.match(several.stderr, /has 3 images\n.*add one of these tags: b, c/);
  const none = await run(['inspect', `oci:${dir}:latest`]);
  assert.equal(none.code, 4);
  assert.match(none.stderr, /no such image in it\n.*name one of b, c/);
  const [tagged = ''] = await layout(dir, [
    { layers: [{ bytes: await checkpoint() }], tag: 'a:1' },
  ]);
  assert.ok(tagged.startsWith(dir));
  assert.equal((await run(['inspect', `oci:${dir}:a:1`])).code, 0);
});

test('what is no checkpoint image is refused with its reason', async (t) => {
  const bytes = await checkpoint();
  const sha = (digit: string) => `sha256:${digit.repeat(64)}`;
  const cases: [Image, number, RegExp][] = [
    [{ layers: [] }, 5, /it has 0 layers/],
    [{ layers: [{ bytes }, { bytes: Buffer.from('x') }] }, 5, /not a tar archive/],
    [{ layers: [{ bytes }, { bytes }] }, 5, /checkpoint\/inventory\.img is no store/],
    [
      { layers: [{ bytes, mediaType: 'text/plain' }] },
      5,
      /text\/plain: a layer of an unknown kind/,
    ],
    [{ layers: [{ bytes, size: 1 }] }, 5, /has \d+ bytes, and should have 1/],
    [{ layers: [{ bytes }], digest: sha('0') }, 5, /blobs\/sha256\/0{64} is missing/],
    [{ layers: [{ bytes }], digest: 'sha256:../../x' }, 5, /index\.json: not what/],
    [
      { layers: [{ bytes }], mediaType: 'application/vnd.oci.image.index.v1+json' },
      5,
      /not what an OCI image layout has there/,
    ],
    [{ layers: [{ bytes }], mediaType: 'text/plain' }, 5, /text\/plain: not the manifest/],
  ];
  for (const [image, status, reason] of cases) {
    const dir = join(await temporaryFolder(t), 'image');
    await layout(dir, [image]);
    const { code, stderr } = await run(['inspect', '--format', 'json', `oci:${dir}`]);
    assert.equal(code, status, `${reason}`);
    assert.match(errorIn(stderr).message, reason);
  }
  const dir = join(await temporaryFolder(t), 'image');
  const [layer = ''] = await layout(dir, [{ layers: [{ bytes }] }]);
  const names = readdirSync(join(dir, 'blobs/sha256')).map((name) =>
    join(dir, 'blobs/sha256', name),
  );
  const manifest = names.find((name) => readFileSync(name, 'latin1').includes('"layers"')) ?? '';
  await writeFile(manifest, readFileSync(manifest, 'latin1').replace('"size":2', '"size":3'));
  assert.match(
    (await run(['inspect', `oci:${dir}`])).stderr,
    /not the manifest that index\.json names/,
  );
  await rm(layer);
  await rm(dir, { recursive: true });
  assert.equal((await run(['inspect', `oci:${dir}`])).code, 4);
  for (const name of [
    'oci:',
    'oci-archive::latest',
    'containers-storage:[overlay@/x]y',
    'containers-storage:-x',
  ])
    assert.equal((await run(['inspect', name])).code, 2, name);
});

/** podman with one image, whose contents are at `path`. */
function storage(path: string, unmount = 0): { run: Run; asked: string[] } {
  const asked: string[] = [];
  const answer = (status: number, stdout = '', stderr = '') => ({ status, stdout, stderr });
  return {
    asked,
    run: async (command, args) => {
      asked.push([command, ...args].join(' '));
      if (args[1] === 'unmount') return answer(unmount);
      return args[2] === 'job:1'
        ? answer(0, `${path}\n`)
        : answer(125, '', 'Error: no such image\n');
    },
  };
}

const name = 'containers-storage:job:1';
const mountAndUnmount = ['podman image mount job:1', 'podman image unmount job:1'];

test('an image that podman stores is mounted for as long as it is needed', async (t) => {
  const path = join(await temporaryFolder(t), 'mount');
  await unpackTo(path, sample());
  const { run: podman, asked } = storage(path);
  const root = await bentHost(t, 'two-gpus', {});
  const checked = await run(['check', '--root', root, name], { run: podman });
  assert.equal(checked.code, 0, checked.stderr);
  assert.match(checked.stdout, /restore here by: podman --runtime crun container restore job:1\n/);
  assert.deepEqual(asked.splice(0), mountAndUnmount);
  const restored = await run(['restore', '--root', root, name, '--keep'], { run: podman });
  assert.deepEqual(restored.given, [
    ['podman', '--runtime', 'crun', 'container', 'restore', '--keep', 'job:1'],
  ]);
  assert.deepEqual(asked.splice(0), mountAndUnmount);
  const refused = await run(['check', '--root', await bentHost(t, 'one-gpu', {}), name], {
    run: podman,
  });
  assert.equal(refused.code, 3);
  assert.deepEqual(asked, mountAndUnmount);
});

test('where numbers differ podman gets an archive of it', async (t) => {
  const path = join(await temporaryFolder(t), 'mount');
  await unpackTo(path, sample());
  const { run: podman } = storage(path);
  const root = await bentHost(t, 'two-gpus', moved);
  process.env['TMPDIR'] = await temporaryFolder(t);
  t.after(() => delete process.env['TMPDIR']);
  const checked = await run(['check', '--root', root, name], { run: podman });
  assert.match(
    checked.stdout,
    /restore here by: kfd-checkpoint restore containers-storage:job:1\n/,
  );
  const restored = await run(['restore', '--root', root, name], { run: podman });
  assert.equal(restored.code, 0, restored.stderr);
  assert.deepEqual(restored.given[0]?.slice(3), ['--import', '/proc/self/fd/3']);
  assert.ok(restored.bytes?.includes('"kfd_major":511'));
  assert.deepEqual(readdirSync(process.env['TMPDIR'] ?? ''), []);
});

test('a runtime that is no plain name is not given to podman', async (t) => {
  const path = join(await temporaryFolder(t), 'mount');
  const config = JSON.parse(String(sample()['config.dump']));
  await unpackTo(path, {
    ...sample(),
    'config.dump': JSON.stringify({ ...config, runtime: '/tmp/program' }),
  });
  const root = await bentHost(t, 'two-gpus', {});
  const { given } = await run(['restore', '--root', root, name], storage(path));
  assert.deepEqual(given, [['podman', 'container', 'restore', 'job:1']]);
});

test('podman that is missing, slow, or without the image; a mount that stays', async (t) => {
  const path = join(await temporaryFolder(t), 'mount');
  await unpackTo(path, sample());
  const killed = { status: undefined, stdout: '', stderr: '' };
  const missing = await run(['inspect', name], { run: async () => undefined });
  assert.equal(missing.code, 3);
  assert.match(missing.stderr, /podman is missing/);
  assert.match((await run(['inspect', name], { run: async () => killed })).stderr, /in 60 s/);
  const other = await run(['inspect', 'containers-storage:other'], storage(path));
  assert.equal(other.code, 4);
  assert.match(other.stderr, /other: Error: no such image\n.*"podman images"/);
  const left = await run(['inspect', name], storage(path, 125));
  assert.equal(left.code, 0);
  assert.match(left.stderr, /job:1: stays mounted: run "podman image unmount"/);
});
