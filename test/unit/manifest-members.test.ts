/** Optional members of the manifest: parent, devices of a rewritten archive, transfers. */

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { decodeManifest, encodeManifest } from '../../src/manifest/codec.js';
import type { Manifest } from '../../src/manifest/schema.js';
import { sampleManifest } from './manifest-sample.js';
import { problemsOf } from './manifest-sealed.js';
import { fixtures } from './paths.js';

/** As `kfd-checkpoint checkpoint --parent` has it made. */
function withParent(): Manifest {
  const name = 'amdgpu-pages-0-0000.img';
  return {
    ...sampleManifest(),
    features: { required: ['parent'], optional: [] },
    parent: { archive: 'base.tar', files: [{ name, root: '0123456789abcdef'.repeat(2) }] },
  };
}

/** As a session writes it that knows where the time of its transfers went. */
function withTransfers(): Manifest {
  const { parent, ...sample } = sampleManifest();
  const transfer = {
    file: 'amdgpu-pages-0-0000.img',
    engine: 'sdma',
    workers: 4,
    bytes: 2101248,
    stored_bytes: 2097152,
    wall_us: 80000,
    copy_wait_us: 61000,
    work_wait_us: 9000,
    file_us: 12000,
    code_us: 4000,
    hash_us: 300,
    turn_wait_us: 50,
    slowest: 'copy',
  } as const;
  const other = { ...transfer, file: 'amdgpu-pages-0-0001.img', bytes: 1048576, engine: 'cpu' };
  return { ...sample, transfers: [transfer, other as typeof transfer], parent };
}

/** As a session writes it that knows the host's driver, firmware and CPU. */
function withHost(): Manifest {
  const sample = sampleManifest();
  const driver = { version: '6.16.6', srcversion: '533BB7E5866E52F63B9ACCB' };
  const cpu = {
    model: 'AMD EPYC 9654 96-Core Processor',
    flags: ['pni', 'ssse3', 'avx', 'avx2', 'avx512f'],
    xsave_bytes: 2440,
  };
  return {
    ...sample,
    host: { ...sample.host, driver, cpu },
    gpus: sample.gpus.map((gpu) => ({ ...gpu, fw_version: 78, sdma_fw_version: 8 })),
  };
}

test('the golden manifest of an image with a parent is, too', async () => {
  const text = await readFile(join(fixtures, 'manifest-v1/kfd-manifest-parent.json'), 'utf8');
  assert.deepEqual(decodeManifest(Buffer.from(text)), withParent());
  assert.equal(encodeManifest(withParent()), text);
});

test('a parent has a file, a root and the feature', () => {
  const bent = (bend: (parent: NonNullable<Manifest['parent']>) => void) => {
    const manifest = withParent();
    if (manifest.parent !== null) bend(manifest.parent);
    return problemsOf(manifest).join('; ');
  };
  assert.equal(
    bent(() => undefined),
    '',
  );
  const [file] = withParent().parent?.files ?? [];
  assert.ok(file);
  assert.match(
    bent((parent) => parent.files.push(file)),
    /parent\.files\.1\.name: .* named twice/,
  );
  assert.match(
    bent((parent) => parent.files.splice(0)),
    /parent\.files/,
  );
  assert.match(
    bent((parent) => parent.files.splice(0, 1, { ...file, name: 'kfd-state-0.img' })),
    /kfd-state-0\.img is no pages file/,
  );
  assert.match(
    bent((parent) => parent.files.splice(0, 1, { ...file, name: 'amdgpu-pages-9-0000.img' })),
    /amdgpu-pages-9-0000\.img is no pages file of the image/,
  );
  assert.match(
    bent((parent) => {
      parent.archive = '../base.tar';
    }),
    /parent\.archive: not the name of a file/,
  );
  const required: string[] = [];
  assert.match(
    problemsOf({ ...withParent(), features: { required, optional: [] } }).join(),
    /do not agree/,
  );
  assert.match(problemsOf({ ...withParent(), parent: null }).join(), /do not agree/);
});

test('the golden manifest of an archive rewritten for another host is, too', async () => {
  const text = await readFile(join(fixtures, 'manifest-v1/kfd-manifest-rewritten.json'), 'utf8');
  const manifest = decodeManifest(Buffer.from(text));
  assert.deepEqual(manifest, {
    ...sampleManifest(),
    devices: {
      kfd_major: 511,
      kfd_minor: 0,
      render: [
        { minor: 128, major: 226 },
        { minor: 130, major: 226 },
        { minor: 131, major: 226 },
      ],
      assigned: [
        { gpu: 0, render_minor: 130 },
        { gpu: 1, render_minor: 131 },
      ],
    },
  });
  assert.equal(encodeManifest(manifest), text);
});

test('the golden manifest that tells of transfers is, too', async () => {
  const text = await readFile(join(fixtures, 'manifest-v1/kfd-manifest-transfers.json'), 'utf8');
  assert.deepEqual(decodeManifest(Buffer.from(text)), withTransfers());
  assert.equal(encodeManifest(withTransfers()), text);
});

test('the golden manifest that tells of driver, firmware and CPU is, too', async () => {
  const text = await readFile(join(fixtures, 'manifest-v1/kfd-manifest-host.json'), 'utf8');
  assert.deepEqual(decodeManifest(Buffer.from(text)), withHost());
  assert.equal(encodeManifest(withHost()), text);
});

test('the golden manifest that was rewritten in spite of differences is, too', async () => {
  const text = await readFile(join(fixtures, 'manifest-v1/kfd-manifest-ignored.json'), 'utf8');
  const manifest: Manifest = { ...withHost(), ignored: ['cpu', 'driver', 'firmware'] };
  assert.deepEqual(decodeManifest(Buffer.from(text)), manifest);
  assert.equal(encodeManifest(manifest), text);
  assert.match(problemsOf({ ...manifest, ignored: ['kernel'] }).join(), /ignored\.0/);
});

test('the golden manifest that tells where SDMA queues are is, too', async () => {
  const manifest = sampleManifest();
  const [process] = manifest.processes;
  manifest.processes = [{ ...(process as Manifest['processes'][number]), sdma_gpus: [0] }];
  const text = await readFile(join(fixtures, 'manifest-v1/kfd-manifest-sdma.json'), 'utf8');
  assert.deepEqual(decodeManifest(Buffer.from(text)), manifest);
  assert.deepEqual(JSON.parse(encodeManifest(manifest)), JSON.parse(text));
});

test('the golden manifest of detached contents is, too, and has a pages file', async () => {
  const manifest = sampleManifest();
  manifest.features = { required: ['detached'], optional: [] };
  const text = await readFile(join(fixtures, 'manifest-v1/kfd-manifest-detached.json'), 'utf8');
  assert.deepEqual(decodeManifest(Buffer.from(text)), manifest);
  assert.deepEqual(JSON.parse(encodeManifest(manifest)), JSON.parse(text));
  manifest.files = manifest.files.filter(({ name }) => !name.startsWith('amdgpu'));
  manifest.buffers = [];
  assert.deepEqual(problemsOf(manifest), ['features.required: "detached" without a pages file']);
});

test('a transfer is of a pages file, and each has one', () => {
  const bent = (bend: (transfers: NonNullable<Manifest['transfers']>) => void) => {
    const manifest = withTransfers();
    bend(manifest.transfers ?? []);
    return problemsOf(manifest).join();
  };
  const of = (file: string) => bent(([first]) => Object.assign(first ?? {}, { file }));
  assert.match(of('kfd-state-0.img'), /transfers\.0\.file: kfd-state-0\.img is no pages file/);
  assert.match(of('amdgpu-pages-7-0000.img'), /transfers\.0\.file: .* is no pages file/);
  assert.match(of('amdgpu-pages-0-0001.img'), /transfers\.1\.file: .* is named twice/);
  const wrong = (changes: object) => bent(([first]) => Object.assign(first ?? {}, changes));
  assert.match(wrong({ wall_us: -1 }), /transfers\.0\.wall_us/);
  assert.match(wrong({ slowest: 'all' }), /transfers\.0\.slowest/);
});

test('a share is of a buffer, and no BO has two', () => {
  const bent = (...shares: object[]) => problemsOf({ ...sampleManifest(), shares }).join('; ');
  const share = { process: 0, bo_index: 7, buffer: 2 };
  assert.equal(bent(share, { ...share, bo_index: 8 }), '');
  assert.equal(bent(share, share), 'shares.1.bo_index: the same BO twice');
  assert.equal(bent({ ...share, bo_index: 3 }), 'shares.0.bo_index: the same BO twice');
  assert.equal(bent({ ...share, buffer: 3 }), 'shares.0.buffer: there is no buffer 3');
  assert.equal(bent({ ...share, process: 1 }), 'shares.0.process: there is no process 1');
  assert.equal(bent({ ...share, bo_index: 24 }), 'shares.0.bo_index: process 0 has 24 BOs');
});

test('numbers and lists end at their limits', () => {
  const names = Array.from({ length: 64 }, (_, index) => `f${index}`);
  const features = { required: [], optional: names };
  assert.deepEqual(problemsOf({ ...sampleManifest(), features }), []);
  names.push('one-more');
  assert.deepEqual(problemsOf({ ...sampleManifest(), features }), [
    'features.optional: not a list of 0 to 64 elements',
  ]);
  for (const [member, most] of [
    ['gpu', 255],
    ['process', 4095],
    ['bo_index', 2 ** 32 - 1],
    ['size', 2 ** 50],
  ] as const) {
    const [buffer] = sampleManifest().buffers;
    const bent = (value: number) =>
      problemsOf({ ...sampleManifest(), buffers: [{ ...buffer, [member]: value }] }).join('; ');
    const wrong = `Invalid value: Expected <=${most} but received ${most + 1}`;
    assert.equal(bent(most + 1), `buffers.0.${member}: ${wrong}`);
    assert.doesNotMatch(bent(most), /Invalid value/);
  }
});
