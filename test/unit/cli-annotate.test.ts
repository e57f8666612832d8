/** `kfd-checkpoint annotate`: what becomes of an image layout, and what podman is told. */

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { gpuAnnotations } from '../../src/archive/image-annotations.js';
import type { Run } from '../../src/os/exec.js';
import {
  checkpointOfHere,
  entriesOf,
  plainCheckpoint,
  tarOf,
  unpackTo,
} from './archive-builder.js';
import { cli, errorIn } from './cli-context.js';
import { assertGolden } from './golden.js';
import { sampleManifest } from './manifest-sample.js';
import { type Image, layout } from './oci-image.js';
import { temporaryFolder } from './paths.js';

/** Of podman, of CRI-O and of checkpointctl. */
const known = {
  'io.podman.annotations.checkpoint.name': 'job',
  'io.kubernetes.cri-o.annotations.checkpoint.name': 'job',
  'org.criu.checkpoint.engine.name': 'podman',
};
const ours = {
  'org.criu.checkpoint.gpu.vendor': 'amd',
  'org.criu.checkpoint.gpu.model': 'gfx90a',
  'org.criu.checkpoint.gpu.count': '2',
  'org.criu.checkpoint.gpu.driver': 'amdgpu 6.12.107+deb13-amd64',
};

interface Described {
  readonly digest: string;
  readonly size: number;
  readonly data?: string;
  readonly annotations: Readonly<Record<string, string>>;
}

const blob = (dir: string, digest: string) =>
  readFileSync(join(dir, 'blobs', digest.replace(':', '/')), 'utf8');

/** The manifests of a layout, with their entries in the index. */
function manifests(dir: string) {
  const { manifests } = JSON.parse(readFileSync(join(dir, 'index.json'), 'utf8')) as {
    manifests: Described[];
  };
  return manifests.map((entry) => ({
    entry,
    text: blob(dir, entry.digest),
    ...(JSON.parse(blob(dir, entry.digest)) as {
      config: Described;
      layers: Described[];
      annotations: Record<string, string>;
    }),
  }));
}

async function layoutOf(t: TestContext, ...images: Partial<Image>[]): Promise<string> {
  const dir = join(await temporaryFolder(t), 'image');
  const layers = [{ bytes: await tarOf(entriesOf(checkpointOfHere())) }];
  await layout(
    dir,
    images.map((image) => ({ layers, ...image })),
  );
  return dir;
}

test('annotations are added to a layout, and all else of the image stays', async (t) => {
  const dir = await layoutOf(t, { annotations: known });
  const [before] = manifests(dir);
  const { code, stdout, stderr } = await cli(['annotate', '--format', 'json', `oci:${dir}`]);
  assert.equal(code, 0, stderr);
  assertGolden(stdout, 'cli-json/annotate.json', { FOLDER: join(dir, '..') });
  const [after] = manifests(dir);
  assert.ok(before !== undefined && after !== undefined);
  assert.deepEqual(after.annotations, { ...known, ...ours });
  assert.deepEqual([after.config, after.layers], [before.config, before.layers]);
  assert.equal(after.entry.size, after.text.length);
  assert.equal((await cli(['inspect', `oci:${dir}`])).code, 0);
});

test('an image that has them stays as it is, and one with other values gets these', async (t) => {
  const dir = await layoutOf(t, { annotations: { ...ours, 'org.criu.checkpoint.gpu.count': '9' } });
  const text = await cli(['annotate', `oci:${dir}`]);
  assert.match(text.stdout, /^org\.criu\.checkpoint\.gpu\.model: gfx90a$/m);
  assert.deepEqual(manifests(dir)[0]?.annotations, ours);
  const index = readFileSync(join(dir, 'index.json'), 'utf8');
  const blobs = readdirSync(join(dir, 'blobs/sha256'));
  const again = await cli(['annotate', '--format', 'json', `oci:${dir}`]);
  assert.equal(JSON.parse(again.stdout).changed, false);
  assert.equal(readFileSync(join(dir, 'index.json'), 'utf8'), index);
  assert.deepEqual(readdirSync(join(dir, 'blobs/sha256')), blobs);
});

test('of several images the named one alone is changed, and keeps its tag', async (t) => {
  const dir = await layoutOf(t, { tag: 'a' }, { tag: 'b' });
  const index = JSON.parse(readFileSync(join(dir, 'index.json'), 'utf8'));
  index.manifests[1].data = 'e30=';
  await writeFile(join(dir, 'index.json'), JSON.stringify(index));
  assert.equal((await cli(['annotate', `oci:${dir}`])).code, 2);
  assert.equal((await cli(['annotate', `oci:${dir}:b`])).code, 0);
  const [a, b] = manifests(dir);
  assert.equal(a?.annotations, undefined);
  assert.equal(b?.annotations['org.criu.checkpoint.gpu.count'], '2');
  assert.deepEqual(b?.entry.annotations, { 'org.opencontainers.image.ref.name': 'b' });
  assert.equal(b?.entry.data, undefined, 'a copy of the earlier manifest');
});

test('what cannot be annotated is refused, and a layout that cannot be written stays', async (t) => {
  const bytes = await tarOf(entriesOf(plainCheckpoint()));
  const dir = await layoutOf(t, { layers: [{ bytes }] });
  const plain = await cli(['annotate', '--format', 'json', `oci:${dir}`]);
  assert.deepEqual([plain.code, errorIn(plain.stderr).code], [4, 'E_IMAGE_MISSING']);
  for (const name of ['oci-archive:/x.tar', '/x.tar']) {
    assert.equal((await cli(['annotate', name])).code, 2, name);
  }
  const full = await layoutOf(t, {});
  const index = readFileSync(join(full, 'index.json'), 'utf8');
  await mkdir(join(full, `.index.json.${process.pid}.tmp`));
  const failed = await cli(['annotate', '--format', 'json', `oci:${full}`]);
  assert.deepEqual([failed.code, errorIn(failed.stderr).code], [1, 'E_IO']);
  assert.equal(readFileSync(join(full, 'index.json'), 'utf8'), index);
});

test('several models are named once each, and the driver with its version and build', () => {
  const { host, gpus } = sampleManifest();
  const others = gpus.map((gpu) => ({ ...gpu, gfx_target_version: 90402 }));
  const driver = { version: '6.14.14', srcversion: '533BB7E5866E52F63B9ACCB' };
  const annotations = gpuAnnotations({ host: { ...host, driver }, gpus: [...gpus, ...others] });
  assert.deepEqual(Object.values(annotations), [
    'amd',
    'gfx90a,gfx942',
    '4',
    'amdgpu 6.14.14 533BB7E5866E52F63B9ACCB',
  ]);
});

test('text of the archive cannot become a command of the Containerfile', async (t) => {
  const kernel_release = '6.12"\nRUN $(reboot)';
  const files = checkpointOfHere((manifest) => {
    manifest.host = { ...manifest.host, kernel_release };
    delete manifest.host.driver;
  });
  const dir = await layoutOf(t, { layers: [{ bytes: await tarOf(entriesOf(files)) }] });
  await cli(['annotate', `oci:${dir}`]);
  const [image] = manifests(dir);
  const driver = image?.annotations['org.criu.checkpoint.gpu.driver'];
  assert.equal(driver, 'amdgpu 6.12??RUN???reboot?');
});

const id = 'ab'.repeat(32);

/** podman with one image. `asked`: its command lines, with the Containerfile's text in place of its name. */
function storage(path: string, image: object, status: Record<string, number> = {}) {
  const asked: string[] = [];
  const run: Run = async (command, args) => {
    const at = args.indexOf('--file');
    const words = args.map((word, place) => {
      if (place === at + 1 && at >= 0) return `<${readFileSync(word, 'utf8')}>`;
      return place === args.length - 1 && at >= 0 ? 'FOLDER' : word;
    });
    asked.push([command, ...words].join(' '));
    const key = args[0] === 'image' ? `image ${args[1]}` : String(args[0]);
    const stdout = args[1] === 'mount' ? path : JSON.stringify([{ Id: id, ...image }]);
    return { status: status[key] ?? 0, stdout, stderr: 'Error: podman says no\n' };
  };
  return { run, asked };
}

const stored = ['annotate', '--format', 'json', 'containers-storage:job:1'];

test('podman makes the image anew from the stored one, with the same layers', async (t) => {
  const path = await temporaryFolder(t);
  await unpackTo(path, checkpointOfHere());
  process.env['TMPDIR'] = await temporaryFolder(t);
  t.after(() => delete process.env['TMPDIR']);
  const names = ['localhost/job:1', 'localhost/job:latest'];
  const { run, asked } = storage(path, { RepoTags: names, Annotations: null });
  const { code, stderr } = await cli(stored, { run });
  assert.equal(code, 0, stderr);
  const pairs = Object.entries(ours);
  assert.deepEqual(asked, [
    'podman image mount job:1',
    'podman image unmount job:1',
    'podman image inspect job:1',
    [
      `podman build --quiet --format oci --pull=never --file <FROM ${id}`,
      `LABEL ${pairs.map(([key, value]) => `"${key}"="${value}"`).join(' ')}`,
      `> ${pairs.map(([key, value]) => `--annotation ${key}=${value}`).join(' ')} ` +
        `${names.map((name) => `--tag ${name}`).join(' ')} FOLDER`,
    ].join('\n'),
    `podman image rm ${id}`,
  ]);
  assert.deepEqual(readdirSync(process.env['TMPDIR'] ?? ''), []);
});

test('a stored image that has them stays; what podman cannot do is told', async (t) => {
  const path = await temporaryFolder(t);
  await unpackTo(path, checkpointOfHere());
  const Annotations = { ...ours, ...known };
  const same = storage(path, { RepoTags: ['localhost/job:1'], Annotations });
  const { stdout } = await cli(stored, { run: same.run });
  assert.equal(JSON.parse(stdout).changed, false);
  assert.equal(same.asked.at(-1), 'podman image inspect job:1');

  const failure = async (image: object, status?: Record<string, number>) =>
    errorIn((await cli(stored, { run: storage(path, image, status).run })).stderr);
  const nameless = await failure({ RepoTags: null });
  assert.deepEqual([nameless.code, /has no name/.test(nameless.message)], ['E_USAGE', true]);
  const built = await failure({ RepoTags: ['localhost/job:1'] }, { build: 125 });
  assert.deepEqual(
    [built.code, built.message],
    ['E_IO', 'job:1: podman build: Error: podman says no'],
  );
  const left = { 'image rm': 2 };
  const { run } = storage(path, { RepoTags: ['localhost/job:1'] }, left);
  assert.equal((await cli(stored, { run })).code, 0, 'an image that is in use may stay');
  assert.equal((await failure({ Id: 'x' })).code, 'E_HOST');
});
