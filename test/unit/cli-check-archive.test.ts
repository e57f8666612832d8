import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { open, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import {
  archive,
  checkpointOfHere,
  entriesOf,
  plainCheckpoint,
  tarOf,
  unpackTo,
} from './archive-builder.js';
import { cli, errorIn } from './cli-context.js';
import { temporaryFolder } from './paths.js';
import { bentHost } from './sysfs-tree.js';

interface Report {
  readonly gpu_state: string;
  readonly preparation: readonly string[];
  readonly restorable: boolean;
  readonly needs_rewriting: boolean;
  readonly command?: readonly string[];
  readonly gpus: { recorded: { ordinal: number }; present: { render_minor: number } }[];
  readonly moves: unknown[];
  readonly warnings: { gpu: number }[];
  readonly reasons: { code: string; message: string; hint: string }[];
}

async function check(path: string, root: string, ...more: string[]) {
  const result = await cli(['check', path, '--format', 'json', '--root', root, ...more]);
  return { ...result, report: JSON.parse(result.stdout) as Report };
}

test('the source host itself: restorable by podman, exit code 0', async (t) => {
  const path = await archive(t, checkpointOfHere());
  const root = await bentHost(t, 'two-gpus', {});
  const { code, stderr, report } = await check(path, root);
  assert.equal(stderr, '');
  assert.equal(code, 0);
  assert.equal(report.restorable, true);
  assert.deepEqual(report.command, ['podman', 'container', 'restore', '--import', path]);
  assert.deepEqual(
    report.gpus.map(({ recorded, present }) => [recorded.ordinal, present.render_minor]),
    [
      [0, 128],
      [1, 129],
    ],
  );
  const text = (await cli(['check', path, '--root', root])).stdout;
  assert.match(text, /^0 +gfx90a +renderD128 +renderD128 +0000:03:00\.0 +64\.0 GiB$/m);
  assert.match(text, /would restore here by: podman container restore --import /);
});

test('other device numbers: restorable, by our own command', async (t) => {
  const path = await archive(t, checkpointOfHere());
  const root = await bentHost(t, 'two-gpus', { 'sys/class/kfd/kfd/dev': '511:0\n' });
  const { code, report } = await check(path, root);
  assert.equal(code, 0);
  assert.equal(report.needs_rewriting, true);
  assert.deepEqual(report.command, ['kfd-checkpoint', 'restore', path]);
  assert.equal(report.moves.length, 1);
  const text = (await cli(['check', path, '--root', root])).stdout;
  assert.match(text, /^\/dev\/kfd +234:0 +511:0$/m);
  // So is a container in place; an image directory alone is without the spec.
  const bundle = join(await temporaryFolder(t), 'ab'.repeat(32), 'userdata');
  await unpackTo(bundle, checkpointOfHere());
  assert.deepEqual((await check(bundle, root)).report.command, [
    'kfd-checkpoint',
    'restore',
    bundle,
  ]);
  const refused = await check(join(bundle, 'checkpoint'), root);
  assert.equal(refused.code, 5);
  assert.deepEqual(
    refused.report.reasons.map((reason) => reason.code),
    ['E_DEVICE_MOVED'],
  );
  const fits = await check(bundle, await bentHost(t, 'two-gpus', {}));
  assert.deepEqual(fits.report.command, ['podman', 'container', 'restore', 'trainer']);
});

test('the contents of a checkpoint image are restored by its name, or as an archive', async (t) => {
  const mounted = await temporaryFolder(t);
  await unpackTo(mounted, checkpointOfHere());
  const fits = await check(mounted, await bentHost(t, 'two-gpus', {}));
  assert.deepEqual(fits.report.command, ['podman', 'container', 'restore', 'IMAGE']);
  const root = await bentHost(t, 'two-gpus', { 'sys/class/kfd/kfd/dev': '511:0\n' });
  const { report } = await check(mounted, root);
  const [program = '', ...words] = report.preparation;
  assert.deepEqual(report.command, ['kfd-checkpoint', 'restore', 'checkpoint.tar']);
  const cwd = await temporaryFolder(t);
  execFileSync(program, words, { cwd });
  const packed = await check(join(cwd, 'checkpoint.tar'), root);
  assert.deepEqual([packed.code, packed.report.gpu_state], [0, 'sealed']);
  const text = (await cli(['check', mounted, '--root', root])).stdout;
  assert.match(text, /by: tar -C .* && kfd-checkpoint restore checkpoint\.tar$/m);
});

test('SDMA queues of other processes are a warning', async (t) => {
  const path = await archive(t, checkpointOfHere());
  const queue = 'sys/class/kfd/kfd/proc/4242/queues/0';
  const root = await bentHost(t, 'two-gpus', {
    [`${queue}/type`]: '1',
    [`${queue}/gpuid`]: '51966',
  });
  const { code, report } = await check(path, root);
  assert.equal(code, 0);
  assert.deepEqual(
    report.warnings.map(({ gpu }) => gpu),
    [0],
  );
  const { stdout } = await cli(['check', path, '--root', root]);
  assert.match(stdout, /^WARNING$/m);
  assert.match(stdout, /pid 4242 has 1 SDMA queue\(s\) on gpu 51966 here/);
});

test('a map of the command line or the configuration is followed', async (t) => {
  const path = await archive(t, checkpointOfHere());
  const root = await bentHost(t, 'two-gpus', {});
  const swap = 'renderD128=renderD129,renderD129=renderD128';
  const minors = (report: Report) => report.gpus.map(({ present }) => present.render_minor);
  const ordered = await check(path, root, '--gpu-map', swap);
  assert.deepEqual(minors(ordered.report), [129, 128]);
  assert.equal(ordered.report.needs_rewriting, true);
  const configured = await bentHost(t, 'two-gpus', {
    'etc/kfd-checkpoint/config.json': '{"gpu_map":{"renderD128":"renderD129"}}',
  });
  assert.deepEqual(minors((await check(path, configured)).report), [129, 128]);
  assert.equal((await cli(['check', path, '--root', root, '--gpu-map', 'x'])).code, 2);
  assert.equal((await cli(['check', '--root', root, '--gpu-map', swap])).code, 2);
});

test('all reasons at once, with the exit code of the first', async (t) => {
  const files = checkpointOfHere((manifest) => {
    manifest.host.kernel_release = '6.1.0';
    manifest.features.required.push('x');
  });
  delete files['checkpoint/amdgpu-pages-0-0001.img'];
  files['checkpoint/kfd-state-0.img'] = 'OTHER';
  files['checkpoint/amdgpu-pages-0-0000.img'] = 'cut';
  const { code, stderr, report } = await check(
    await archive(t, files),
    await bentHost(t, 'one-gpu', {}),
  );
  assert.equal(code, 5);
  assert.equal(report.restorable, false);
  assert.equal(report.command, undefined);
  assert.deepEqual(report.reasons.map((reason) => reason.code).sort(), [
    'E_IMAGE_CORRUPT',
    'E_IMAGE_CORRUPT',
    'E_IMAGE_MISSING',
    'E_KERNEL_MISMATCH',
    'E_NO_GPU',
    'E_NO_GPU',
    'E_UNSUPPORTED_STATE',
  ]);
  assert.ok(report.reasons.every((reason) => reason.hint.length > 10));
  assert.match(
    errorIn(stderr).message,
    /would not restore here: kfd-state-0\.img: .* \(and 6 more\)$/,
  );
});

test('each exit code is that of the one table', async (t) => {
  const path = await archive(t, checkpointOfHere());
  const pci = 'sys/devices/pci0000:00/0000:03:00.0';
  const node = 'sys/class/kfd/kfd/topology/nodes/1/properties';
  const other = 'simd_count 416\ngfx_target_version 90006\ndrm_render_minor 128\nnum_xcc 1\n';
  for (const [expected, code, host, changes] of [
    [3, 'E_NO_GPU', 'no-kfd', {}],
    [3, 'E_VRAM', 'two-gpus', { [`${pci}/mem_info_vram_used`]: '68702699519\n' }],
    [5, 'E_GPU_MISMATCH', 'two-gpus', { [node]: other }],
    [5, 'E_KERNEL_MISMATCH', 'two-gpus', { 'proc/sys/kernel/osrelease': '7.3.0\n' }],
  ] as const) {
    const { code: status, report } = await check(path, await bentHost(t, host, changes));
    assert.equal(report.reasons[0]?.code, code);
    assert.equal(status, expected, code);
  }
  assert.equal((await cli(['check', `${path}.gone`])).code, 4);
});

test('without GPU state any host will do; without a seal none', async (t) => {
  const root = await bentHost(t, 'no-kfd', {});
  const plain = await archive(t, plainCheckpoint());
  const { code, report } = await check(plain, root);
  assert.equal(code, 0);
  assert.deepEqual(report.command, ['podman', 'container', 'restore', '--import', plain]);
  assert.match(
    (await cli(['check', plain, '--root', root])).stdout,
    /^no GPU state; would restore/,
  );
  const files = checkpointOfHere();
  delete files['checkpoint/kfd-manifest.json'];
  const unsealed = await check(await archive(t, files), root);
  assert.equal(unsealed.code, 5);
  assert.deepEqual(
    unsealed.report.reasons.map((reason) => reason.code),
    ['E_IMAGE_UNSEALED'],
  );
});

test('folders of the host that the container has mounted are looked for', async (t) => {
  const id = 'f00dfeed00112233445566778899aabbccddeeff00112233445566778899aabb';
  const bind = (destination: string, source: unknown) => ({ destination, type: 'bind', source });
  const files = checkpointOfHere();
  files['spec.dump'] = JSON.stringify({
    mounts: [
      bind('/data', '/srv/data'),
      bind('/models', '/srv/models'),
      bind('/etc/hosts', `/run/containers/storage/overlay-containers/${id}/userdata/hosts`),
      bind('/volume', '/var/lib/containers/storage/volumes/v/_data'),
      bind('/odd', 5),
      { destination: '/proc', type: 'proc', source: 'proc' },
      'nonsense',
    ],
  });
  const root = await bentHost(t, 'two-gpus', { 'srv/data/x': '' });
  const { code, report } = await check(await archive(t, files), root);
  assert.equal(code, 3);
  assert.deepEqual(
    report.reasons.map(({ code, message }) => [code, message]),
    [['E_HOST', 'mount /models: /srv/models is not on this host']],
  );
});

test('a compressed archive is read whole, and that is said', async (t) => {
  const path = `${await archive(t, checkpointOfHere())}.gz`;
  await writeFile(path, gzipSync(await tarOf(entriesOf(checkpointOfHere()))));
  const { code, stderr, report } = await check(path, await bentHost(t, 'two-gpus', {}));
  assert.equal(code, 0);
  assert.equal(report.restorable, true);
  assert.match(stderr, /one gzip stream, so all of it must be read/);
});

test('an uncompressed archive of 200 GB is judged in less than a second', async (t) => {
  const big = 200e9;
  const files = checkpointOfHere((manifest) => {
    Object.assign(manifest.files[1] as object, { size: big });
  });
  const { 'checkpoint/amdgpu-pages-0-0000.img': _, ...others } = files;
  const path = join(await temporaryFolder(t), 'big.tar');
  // A sparse file: its contents take no room, and reading them would take minutes all the same.
  const size = Buffer.alloc(12);
  size[0] = 0x80;
  size.writeBigUInt64BE(BigInt(big), 4);
  const name = 'checkpoint/amdgpu-pages-0-0000.img';
  const header = (await tarOf([{ name }])).subarray(0, 512);
  size.copy(header, 124);
  header.fill(' ', 148, 156);
  const sum = header.reduce((total, byte) => total + byte, 0);
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1');
  const file = await open(path, 'w');
  await file.write(header, 0, 512, 0);
  await file.write(await tarOf(entriesOf(others)), 0, undefined, 512 + Math.ceil(big / 512) * 512);
  await file.close();
  const root = await bentHost(t, 'two-gpus', {});
  // Time of the processor: on a full machine the clock says nothing.
  const began = process.cpuUsage();
  const { code, report, stderr } = await check(path, root);
  const { user, system } = process.cpuUsage(began);
  const took = (user + system) / 1000;
  assert.equal(code, 0, stderr);
  assert.equal(report.restorable, true);
  assert.ok(took < 1000, `took ${took} ms`);
});
