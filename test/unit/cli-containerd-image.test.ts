import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { asLine } from '../../src/cli/containerd-steps.js';
import { checkpointOfHere, type Files, tarOf } from './archive-builder.js';
import { errorIn, cliWithTar as run } from './cli-context.js';
import {
  any,
  containerdLayout,
  type Named,
  ofContainer,
  type Part,
  partsOf,
  specUrl,
  types,
} from './containerd-layout.js';
import { temporaryFolder } from './paths.js';
import { bentHost } from './sysfs-tree.js';

const spec = JSON.stringify({
  mounts: [{ destination: '/data', type: 'bind', source: '/usr' }],
  annotations: { 'io.kfd-checkpoint.version': '0.1.0' },
  linux: { devices: [{ path: '/dev/kfd', type: 'c', major: 234, minor: 0 }] },
});

interface Layout {
  readonly dir: string;
  readonly name: string;
  /** Of blobs, by media type. */
  readonly paths: Readonly<Record<string, string>>;
}

async function made(t: TestContext, change?: (parts: Part[]) => Part[], how?: Named) {
  const dir = join(await temporaryFolder(t), 'image');
  const parts = await partsOf(checkpointOfHere(), spec);
  const paths = await containerdLayout(dir, change?.(parts) ?? parts, how);
  return { dir, name: `oci:${dir}`, paths } satisfies Layout;
}

/** The same as one file, as `ctr image export` writes it. */
async function exported(t: TestContext, { dir }: Layout): Promise<[string, string]> {
  const folder = join(await temporaryFolder(t), 'here');
  await mkdir(folder);
  const file = join(folder, 'saved.tar');
  execFileSync('tar', ['-C', dir, '-cf', file, 'blobs', 'index.json', 'oci-layout']);
  return [file, folder];
}

const without =
  (...gone: string[]) =>
  (parts: Part[]) =>
    parts.filter(({ mediaType }) => !gone.includes(mediaType));
const withSpec = (bytes: Buffer) => (parts: Part[]) => [
  ...without(types.spec)(parts),
  { mediaType: types.spec, bytes },
];

test('the reading verbs find the GPU state in an image of containerd, in a folder and in a file', async (t) => {
  const image = await made(t);
  const [file, folder] = await exported(t, image);
  const root = await bentHost(t, 'two-gpus', { usr: 'there' });
  for (const name of [image.name, `${image.name}:1`, `oci-archive:${file}:localhost/saved:1`]) {
    const inspected = await run('inspect', '--format', 'json', name);
    assert.equal(inspected.code, 0, inspected.stderr);
    const report = JSON.parse(inspected.stdout);
    assert.deepEqual(
      [report.image, report.runtime, report.engine, report.container_name],
      ['docker.io/library/worker:latest', 'io.containerd.runc.kfd.v2', 'containerd', undefined],
    );
    assert.deepEqual(report.source, { path: name, kind: 'containerd', compression: 'none' });
    assert.equal(report.gpu_state, 'sealed');
    assert.deepEqual(report.buffers, {
      vram: { count: 2, size: 3145728 },
      gtt: { count: 1, size: 4096 },
    });
    assert.equal(report.checkpoint_size.amd_gpu_memory_pages_size, 38);
    const verified = await run('verify', '--quiet', '--format', 'json', name);
    assert.equal(verified.code, 0, verified.stderr);
    const { sound, sealed, files } = JSON.parse(verified.stdout);
    assert.deepEqual([sound, sealed, files.length], [true, true, 3]);
    const checked = await run('check', '--root', root, '--format', 'json', name);
    assert.equal(checked.code, 0, checked.stderr);
    const verdict = JSON.parse(checked.stdout);
    assert.deepEqual(
      [verdict.path, verdict.kind, verdict.restorable, verdict.gpus.length],
      [name, 'containerd', true, 2],
    );
  }
  assert.deepEqual(readdirSync(folder), ['saved.tar'], 'nothing stays');
});

test('check says which commands of ctr restore it', async (t) => {
  const root = await bentHost(t, 'two-gpus', { usr: 'there' });
  const check = async (name: string) => (await run('check', '--root', root, name)).stdout;
  const image = await made(t);
  const [file] = await exported(t, image);
  const restore = 'ctr container restore --live --rw NAME localhost/saved:1';
  assert.match(
    await check(`oci-archive:${file}`),
    new RegExp(`restore here by: ctr image import --no-unpack ${file} && ${restore}\n`),
  );
  assert.match(
    await check(image.name),
    new RegExp(
      `by: tar -C ${image.dir} -cf image.tar \\. && ctr image import --no-unpack image.tar && ${restore}\n`,
    ),
  );
  const { command, preparation, steps } = JSON.parse(
    (await run('check', '--root', root, '--format', 'json', image.name)).stdout,
  );
  assert.deepEqual(command, restore.split(' '));
  assert.deepEqual([preparation[0], steps[1][0], steps[2]], ['tar', 'ctr', command]);
  const plain = await made(t, without(types.changes));
  assert.match(await check(plain.name), /restore --live NAME localhost\/saved:1\n/);
  // An image of "ctr task checkpoint" says nothing of the runtime.
  const ofTask = await made(t, undefined, { annotations: { 'image.name': 'worker:1' } });
  assert.match(
    await check(ofTask.name),
    /&& ctr run --detach --checkpoint localhost\/saved:1 FLAGS worker:1 NAME\n/,
  );
  const hostile = await made(t, undefined, { name: '$(reboot):1' });
  assert.match(await check(hostile.name), /restore --live --rw NAME IMAGE\n/);
});

test('check compares the spec in the image with this host, and other device numbers are told', async (t) => {
  const { name } = await made(t);
  const root = await bentHost(t, 'two-gpus', { 'sys/class/kfd/kfd/dev': '511:0\n' });
  const { code, stdout } = await run('check', '--root', root, '--format', 'json', name);
  assert.equal(code, 5);
  const { reasons, steps, command } = JSON.parse(stdout);
  assert.deepEqual(
    reasons.map((one: { code: string }) => one.code),
    ['E_DEVICE_MOVED', 'E_HOST'],
  );
  assert.match(reasons[0].hint, /containerd restores an image as it is/);
  assert.match(reasons[1].message, /mount \/data: \/usr is not on this host/);
  assert.deepEqual([steps, command], [undefined, undefined]);
});

test('verbs that need podman refuse it with the next step, before anything large is unpacked', async (t) => {
  const image = await made(t);
  const [file] = await exported(t, image);
  await rm(image.paths[types.criu] ?? '');
  const target = `oci:${join(await temporaryFolder(t), 'new')}:1`;
  for (const [args, reason] of [
    [['restore', image.name], /podman cannot restore it/],
    [['image', image.name, target], /no image in layers can be made of it/],
    [['annotate', image.name], /cannot be annotated/],
  ] as const) {
    const { code, stderr } = await run(...args, '--format', 'json');
    assert.equal(code, 2, stderr);
    const { code: found, message, hint } = errorIn(stderr);
    assert.equal(found, 'E_USAGE');
    assert.match(message, /a checkpoint image of containerd: /);
    assert.match(message, reason);
    assert.match(hint, /ctr image import --no-unpack image\.tar && ctr container restore --live/);
  }
  assert.ok(!existsSync(target.slice('oci:'.length, -':1'.length)));
  const refused = await run('restore', `oci-archive:${file}`);
  assert.match(refused.stderr, new RegExp(`import --no-unpack ${file} && ctr container restore`));
});

test('an image without spec, and one without GPU, are read', async (t) => {
  const bare = await made(t, without(types.spec, types.options), { annotations: {} });
  const report = JSON.parse((await run('inspect', '--format', 'json', bare.name)).stdout);
  assert.deepEqual(
    [report.gpu_state, report.engine, report.image],
    ['sealed', undefined, undefined],
  );
  const files: Files = {
    'checkpoint/inventory.img': checkpointOfHere()['checkpoint/inventory.img'] ?? '',
  };
  const parts = await partsOf(files, '{}');
  const dir = join(await temporaryFolder(t), 'image');
  await containerdLayout(dir, parts);
  assert.match((await run('verify', `oci:${dir}`)).stdout, /^no GPU state$/m);
});

test('damage, and what no containerd makes, is refused with its reason', async (t) => {
  const more = (mediaType: string, bytes: Buffer) => (parts: Part[]) => [
    ...parts,
    { mediaType, bytes },
  ];
  const noTar = { mediaType: types.criu, bytes: Buffer.from('no tar') };
  const cases: [(parts: Part[]) => Part[], string, RegExp][] = [
    [without(types.criu), 'E_IMAGE_MISSING', /has no processes/],
    [() => [], 'E_IMAGE_CORRUPT', /an index of images, and not a checkpoint/],
    [more(types.criu, Buffer.from('x')), 'E_IMAGE_CORRUPT', /criu\.tar is there 2 times/],
    [more(types.spec, Buffer.from('x')), 'E_IMAGE_CORRUPT', /v1\+proto is there 2 times/],
    [(parts) => [...without(types.criu)(parts), noTar], 'E_IMAGE_CORRUPT', /not a tar archive/],
    [withSpec(any('types.containerd.io/other', '{}')), 'E_IMAGE_CORRUPT', /of an unknown kind/],
    [withSpec(Buffer.of(0x12, 0xff, 0x01)), 'E_IMAGE_CORRUPT', /container's spec: damaged/],
    [withSpec(Buffer.alloc(0)), 'E_IMAGE_CORRUPT', /of an unknown kind/],
    [withSpec(any(specUrl, Buffer.of(0xff))), 'E_IMAGE_CORRUPT', /spec\.dump: not UTF-8/],
    [withSpec(any(specUrl, '['.repeat(200))), 'E_IMAGE_CORRUPT', /levels of nesting/],
    [withSpec(any(specUrl, Buffer.alloc(4 << 20, ' '))), 'E_IMAGE_CORRUPT', /larger than/],
  ];
  for (const [change, code, reason] of cases) {
    const how = code === 'E_IMAGE_MISSING' ? { annotations: ofContainer } : { annotations: {} };
    const { name } = await made(t, change, how);
    const { stderr } = await run('inspect', '--format', 'json', name);
    assert.equal(errorIn(stderr).code, code, `${reason}`);
    assert.match(errorIn(stderr).message, reason);
  }
});

test('blobs are those that the index names', async (t) => {
  const image = await made(t);
  const path = image.paths[types.spec] ?? '';
  const bytes = readFileSync(path);
  bytes.writeUInt8(bytes.readUInt8(40) ^ 1, 40);
  await writeFile(path, bytes);
  assert.match(
    (await run('inspect', image.name)).stderr,
    /not the manifest that index\.json names/,
  );
  await rm(path);
  assert.match((await run('inspect', image.name)).stderr, /is missing/);
});

test('images of one tag are told apart by the names that containerd has for them', async (t) => {
  const { dir, name } = await made(t);
  const path = join(dir, 'index.json');
  const { manifests } = JSON.parse(readFileSync(path, 'utf8'));
  const [first] = manifests;
  const other = { ...first.annotations, 'io.containerd.image.name': 'localhost/other:1' };
  manifests.push({ ...first, annotations: other, mediaType: 'text/plain' });
  await writeFile(path, JSON.stringify({ schemaVersion: 2, manifests }));
  const several = await run('inspect', `${name}:1`);
  assert.equal(several.code, 2);
  assert.match(several.stderr, /these tags: 1, localhost\/saved:1, localhost\/other:1\n/);
  assert.equal((await run('inspect', `${name}:localhost/saved:1`)).code, 0);
});

test('links and names that leave the image directory are found in CRIU’s tar file', async (t) => {
  const { 'checkpoint/inventory.img': inventory = '' } = checkpointOfHere();
  const criu = async (...entries: Parameters<typeof tarOf>[0]) => {
    const bytes = await tarOf([{ name: 'inventory.img', data: inventory }, ...entries]);
    return made(t, (parts) => [...without(types.criu)(parts), { mediaType: types.criu, bytes }]);
  };
  const outside = await criu({ name: '../config.dump', data: '{}' });
  assert.match((await run('inspect', outside.name)).stderr, /a name that leaves the archive/);
  const link = await criu({ name: 'kfd-manifest.json', type: 'symlink', linkname: '/etc/passwd' });
  assert.match(
    (await run('verify', '--quiet', link.name)).stderr,
    /kfd-manifest\.json: not a plain/,
  );
  // Documents of the engine come from containerd, and a file of that name is another one.
  const other = await criu({
    name: 'spec.dump',
    data: '{"annotations":{"io.container.manager":"libpod"}}',
  });
  const { stdout } = await run('inspect', '--format', 'json', other.name);
  assert.equal(JSON.parse(stdout).engine, 'containerd');
});

test('commands to paste are quoted where a name is more than plain', () => {
  const name = "/srv/it's; $(reboot).tar";
  assert.equal(
    asLine([
      ['tar', '-xf', name],
      ['ctr', 'run', 'a:1'],
    ]),
    "tar -xf '/srv/it'\\''s; $(reboot).tar' && ctr run a:1",
  );
});
