import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { decodeManifest, encodeManifest } from '../../src/manifest/codec.js';
import type { Manifest } from '../../src/manifest/schema.js';
import {
  archive,
  checkpointOfHere,
  type Files,
  gpuCheckpoint,
  plainCheckpoint,
} from './archive-builder.js';
import { cli } from './cli-context.js';
import { fixtures } from './paths.js';

test('inspect prints JSON with the keys of checkpointctl and ours', async (t) => {
  const path = await archive(t, gpuCheckpoint().files);
  const { code, stdout, stderr } = await cli(['inspect', path, '--format', 'json']);
  assert.equal(code, 0);
  assert.equal(stderr, '');
  const report = JSON.parse(stdout) as Record<string, unknown>;
  assert.equal(Object.keys(report)[0], 'schema_version');
  assert.equal(report['container_name'], 'trainer');
  assert.equal(report['engine'], 'Podman');
  assert.equal(report['gpu_state'], 'sealed');
  const sizes = report['checkpoint_size'] as Record<string, number>;
  assert.equal(sizes['amd_gpu_memory_pages_size'], 38);
  assert.equal(sizes['memory_pages_size'], 8192);
  assert.equal(sizes['root_fs_diff_size'], 1024);
  assert.deepEqual(report['buffers'], {
    vram: { count: 2, size: 3145728 },
    gtt: { count: 1, size: 4096 },
  });
  assert.equal((report['gpus'] as { gfx: string }[])[0]?.gfx, 'gfx90a');
  assert.equal((report['ext_files'] as unknown[]).length, 2);
  assert.deepEqual(report['timings_us'], { state: 1200, drain: 84000, seal: 300 });
});

test('inspect prints a table and a tree', async (t) => {
  const path = await archive(t, gpuCheckpoint().files);
  const asTable = (await cli(['inspect', path])).stdout;
  assert.match(asTable, /^CONTAINER +IMAGE +ID +RUNTIME/);
  assert.match(asTable, /^trainer +localhost\/worker:latest +f00dfeed0011 +crun/m);
  assert.match(asTable, /^0 +51966 +gfx90a +64\.0 GiB +renderD128 +0000:03:00\.0 +- +-$/m);
  assert.match(asTable, /^0 +7 +worker +0,1 +24 +- +- +0 +3\.0 MiB +4\.0 KiB$/m);
  const asTree = (await cli(['inspect', path, '--format', 'tree'])).stdout;
  assert.match(asTree, /^trainer\n├── Image: localhost/);
  assert.match(asTree, /AMD GPU memory pages size: 38 B/);
  assert.match(asTree, /^ {4}└── Timings\n {8}├── state: 1\.2 ms$/m);
});

test('inspect shows driver, firmware and CPU of the source host, where they are recorded', async (t) => {
  const golden = join(fixtures, 'manifest-v1/kfd-manifest-ignored.json');
  const { host, gpus, ignored } = decodeManifest(await readFile(golden));
  const path = await archive(
    t,
    checkpointOfHere((manifest) => Object.assign(manifest, { host, gpus, ignored })),
  );
  const report = JSON.parse((await cli(['inspect', path, '--format', 'json'])).stdout);
  assert.deepEqual(report.host, host);
  assert.deepEqual([report.gpus[1].fw_version, report.gpus[1].sdma_fw_version], [78, 8]);
  assert.deepEqual(report.ignored, ['cpu', 'driver', 'firmware']);
  const asTable = (await cli(['inspect', path])).stdout;
  const kernel = '6\\.12\\.107\\+deb13-amd64';
  assert.match(
    asTable,
    new RegExp(
      `^HOST +KERNEL +KFD +DRIVER +CPU\nsource +${kernel} +1\\.17 +6\\.16\\.6 +AMD EPYC 9654 96-Core Processor$`,
      'm',
    ),
  );
  assert.match(asTable, /^0 .* 0000:03:00\.0 +78 +8$/m);
  const tree = (await cli(['inspect', path, '--format', 'tree'])).stdout;
  assert.match(tree, /Driver: amdgpu 6\.16\.6, srcversion 533BB7E5866E52F63B9ACCB$/m);
  assert.match(tree, /CPU: AMD EPYC 9654 96-Core Processor, XSAVE 2440 bytes$/m);
  assert.match(tree, /Flags: pni ssse3 avx avx2 avx512f$/m);
  assert.match(tree, /0: gfx90a, .*, 0000:03:00\.0, firmware: MEC 78, SDMA 8$/m);
  assert.match(tree, /Ignored: cpu, driver, firmware$/m);
  const silent = await archive(t, gpuCheckpoint().files);
  assert.match((await cli(['inspect', silent])).stdout, /^source +\S+ +1\.17 +- +-$/m);
  const bare = (await cli(['inspect', silent, '--format', 'tree'])).stdout;
  assert.doesNotMatch(bare, /Driver|CPU|Ignored|firmware/);
});

test('inspect shows where the time of transfers went, where a manifest tells', async (t) => {
  const golden = join(fixtures, 'manifest-v1/kfd-manifest-transfers.json');
  const { transfers = [] } = decodeManifest(await readFile(golden));
  const path = await archive(
    t,
    checkpointOfHere((manifest) => Object.assign(manifest, { transfers })),
  );
  const report = JSON.parse((await cli(['inspect', path, '--format', 'json'])).stdout);
  assert.deepEqual(report.transfers, [
    { ...transfers[0], gpu: 0, bytes_per_s: 26265600 },
    { ...transfers[1], gpu: 1, bytes_per_s: 13107200 },
  ]);
  assert.match(
    (await cli(['inspect', path])).stdout,
    /^CONTENTS .* SLOWEST STAGE\namdgpu-pages-0-0000\.img +0 +sdma +2\.0 MiB +2\.0 MiB +80\.0 ms +26\.3 MB\/s +copy$/m,
  );
  const tree = (await cli(['inspect', path, '--format', 'tree'])).stdout;
  assert.match(tree, /amdgpu-pages-0-0000\.img: GPU 0, 80\.0 ms, 26\.3 MB\/s, slowest: copy/);
  assert.match(tree, /Copies: sdma, 2\.0 MiB, waited for 61\.0 ms/);
  const silent = await archive(t, gpuCheckpoint().files);
  assert.doesNotMatch((await cli(['inspect', silent])).stdout, /SLOWEST/);
});

test('inspect shows which buffers are shared, and by whom', async (t) => {
  const { files, manifest } = gpuCheckpoint();
  const [first] = manifest.processes as [Manifest['processes'][number]];
  manifest.processes.push({ ...first, ordinal: 1, state_file: 'kfd-state-1.img' });
  manifest.files.push({ ...(manifest.files[0] as object), name: 'kfd-state-1.img' } as never);
  manifest.shares = [
    { process: 1, bo_index: 3, buffer: 2 },
    { process: 0, bo_index: 9, buffer: 2 },
  ];
  files['checkpoint/kfd-manifest.json'] = encodeManifest(manifest);
  const path = await archive(t, files);
  const json = (await cli(['inspect', path, '--format', 'json'])).stdout;
  assert.deepEqual((JSON.parse(json) as Record<string, unknown>)['shared_buffers'], [
    { id: 2, gpu: 1, kind: 'vram', size: 1048576, processes: [0, 1, 0] },
  ]);
  const tree = (await cli(['inspect', path, '--format', 'tree'])).stdout;
  assert.match(tree, /Shared\n.*2: vram, 1\.0 MiB, GPU 1, processes 0, 1, 0\n/);
});

test('a checkpoint without a GPU is shown as such', async (t) => {
  const path = await archive(t, plainCheckpoint());
  for (const format of ['table', 'tree', 'json']) {
    const { code, stdout } = await cli(['inspect', path, '--format', format]);
    assert.equal(code, 0);
    assert.match(stdout, /none/);
  }
  const verified = await cli(['verify', path]);
  assert.equal(verified.code, 0);
  assert.equal(verified.stdout, 'no GPU state\n');
});

test('GPU files without a manifest are shown and refused', async (t) => {
  const { files } = gpuCheckpoint();
  delete files['checkpoint/kfd-manifest.json'];
  const path = await archive(t, files);
  for (const verb of ['inspect', 'verify']) {
    const { code, stdout, stderr } = await cli([verb, path]);
    assert.equal(code, 5);
    assert.notEqual(stdout, '');
    assert.match(stderr, /never sealed/);
  }
});

test('a damaged manifest is exit code 5, a missing file 4', async (t) => {
  const { files } = gpuCheckpoint();
  const text = files['checkpoint/kfd-manifest.json']?.toString() ?? '';
  files['checkpoint/kfd-manifest.json'] = text.replace('worker', 'w0rker');
  const { code, stdout, stderr } = await cli(['inspect', await archive(t, files)]);
  assert.equal(code, 5);
  assert.equal(stdout, '');
  assert.match(stderr, /^Error: kfd-manifest\.json: the seal does not match\nHint: .*\n$/);
  assert.equal((await cli(['inspect', '/nowhere'])).code, 4);
});

test('text out of an archive cannot steer the terminal', async (t) => {
  const files: Files = {
    ...plainCheckpoint(),
    'config.dump': JSON.stringify({ name: 'a\u001b]0;x\u0007b' }),
  };
  const path = await archive(t, files);
  for (const format of ['table', 'tree', 'json']) {
    const { stdout } = await cli(['inspect', path, '--format', format]);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: that is the point
    assert.doesNotMatch(stdout, /[\u001b\u0007]/);
  }
});
