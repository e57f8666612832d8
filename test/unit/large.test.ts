/** Sizes beyond 2^32 and sums of 300 GiB: JavaScript's numbers hold them, and nothing on the way cuts them. */

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { open, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { readContents } from '../../src/archive/contents.js';
import { verifyCheckpoint } from '../../src/archive/verify.js';
import { nativeServices } from '../../src/cli/native-services.js';
import { encodeManifest } from '../../src/manifest/codec.js';
import type { Manifest } from '../../src/manifest/schema.js';
import { native } from '../../src/native.js';
import { entriesOf, type Files, fakeVerifier, gpuCheckpoint, tarOf } from './archive-builder.js';
import { cli, fakeNative } from './cli-context.js';
import { repository, temporaryFolder } from './paths.js';
import { rawTar } from './raw-tar.js';
import { bentHost } from './sysfs-tree.js';

const gib = 2 ** 30;
/** Of the sample's buffers: two on the first GPU, one on the second; 300 GiB. */
const sizes = [150 * gib + 4096, 30 * gib, 120 * gib - 4096] as const;
const [first, second, third] = sizes;
const total = 300 * gib;
const gpus = [[0, 1], [2]] as const;
const names = ['amdgpu-pages-0-0000.img', 'amdgpu-pages-0-0001.img'] as const;

/** State files that fit, checked pages files that are real. */
const verifier = {
  ...fakeVerifier,
  pagesCheck: nativeServices.verifier().pagesCheck,
  siblingCheck: nativeServices.verifier().siblingCheck,
  stateFacts: (bytes: Buffer) => {
    const facts = fakeVerifier.stateFacts(bytes);
    facts.bos.sizes.set(sizes, 3);
    return facts;
  },
};
const services = {
  ...fakeNative,
  verifier: () => verifier,
  imageFlattener: nativeServices.imageFlattener,
};
const walk = { zstdDecoder: fakeNative.zstdDecoder };

function largeManifest(): { files: Files; manifest: Manifest } {
  const { files, manifest } = gpuCheckpoint();
  manifest.host.machine = process.arch === 'x64' ? 'x86_64' : 'aarch64';
  manifest.buffers = manifest.buffers.map((buffer, i) => ({ ...buffer, size: sizes[i] ?? 0 }));
  manifest.gpus = manifest.gpus.map((gpu) => ({ ...gpu, vram_bytes: 192 * gib }));
  manifest.processes = manifest.processes.map((one) => ({
    ...one,
    vram_bytes: first + third,
    gtt_bytes: second,
  }));
  return { files, manifest };
}

/** An archive with real pages files that list 300 GiB; with `parent`, a folder, what refers to its files. */
async function checkpoint(t: TestContext, seed: number, parent?: string) {
  const folder = await temporaryFolder(t);
  const { files, manifest } = largeManifest();
  gpus.forEach((ids, gpu) => {
    const name = names[gpu] ?? '';
    const path = join(folder, name);
    const known = parent === undefined ? '' : join(parent, name);
    const args = [path, known, 0, gpu, ids[0], seed, ...ids.map((id) => sizes[id])];
    execFileSync(join(repository, 'build/native/sparse_pages'), args.map(String));
    const summary = native().listPages(path);
    assert.equal(summary.contentBytes, gpu === 0 ? first + second : third);
    files[`checkpoint/${name}`] = readFileSync(path);
    manifest.files = manifest.files.map((file) =>
      file.name === name
        ? { name, size: summary.fileBytes, digest: { algo: 'xxh3-128', hex: summary.root } }
        : file,
    );
    if (summary.parent === undefined) return;
    manifest.features = { required: ['parent'], optional: [] };
    const refers = [...(manifest.parent?.files ?? []), { name, root: summary.parent }];
    manifest.parent = { archive: 'base.tar', files: refers };
  });
  files['checkpoint/kfd-manifest.json'] = encodeManifest(manifest);
  return { folder, tar: await tarOf(entriesOf(files)) };
}

async function assertWhole(path: string) {
  const report = await verifyCheckpoint(path, { ...walk, verifier });
  assert.deepEqual(report.problems, []);
  assert.deepEqual(
    report.files.flatMap(({ problems }) => problems),
    [],
  );
  const { manifest } = report.contents;
  assert.equal(
    manifest?.buffers.reduce((sum, { size }) => sum + size, 0),
    total,
  );
  assert.equal(
    report.files.reduce((sum, { frames = 0 }) => sum + frames, 0),
    sizes.reduce((sum, size) => sum + Math.ceil(size / (2 << 20)), 0),
  );
}

test('300 GiB of contents: inspected, verified, checked and put together with a parent', async (t) => {
  const base = await checkpoint(t, 1);
  const folder = await temporaryFolder(t);
  const path = join(folder, 'base.tar');
  await writeFile(path, base.tar);
  const delta = join(folder, 'delta.tar');
  await writeFile(delta, (await checkpoint(t, 2, base.folder)).tar);

  const shown = await cli(['inspect', '--format', 'json', path], { native: services });
  assert.equal(shown.code, 0, shown.stderr);
  const { buffers, processes } = JSON.parse(shown.stdout);
  assert.deepEqual(buffers, {
    vram: { count: 2, size: first + third },
    gtt: { count: 1, size: second },
  });
  assert.equal(processes[0].vram_bytes + processes[0].gtt_bytes, total);
  const text = (await cli(['inspect', path], { native: services })).stdout;
  assert.match(text, /worker +0,1 .* 270\.0 GiB +30\.0 GiB$/m);

  await assertWhole(path);
  assert.equal((await cli(['verify', '--quiet', path], { native: services })).code, 0);

  // All that such an image wants of a host is room.
  const tooSmall = await bentHost(t, 'two-gpus', {});
  const refused = await cli(['check', '--format', 'json', '--root', tooSmall, path], {
    native: services,
  });
  const { reasons } = JSON.parse(refused.stdout) as { reasons: { message: string }[] };
  assert.equal(reasons.length, 2);
  assert.match(reasons[0]?.message ?? '', new RegExp(`: ${first} bytes of VRAM are needed`));
  assert.match(reasons[1]?.message ?? '', new RegExp(`: ${third} bytes of VRAM are needed`));
  const vram = (pci: string) => `sys/devices/pci0000:00/${pci}/mem_info_vram_total`;
  const enough = await bentHost(t, 'two-gpus', {
    [vram('0000:03:00.0')]: `${192 * gib}\n`,
    [vram('0000:43:00.0')]: `${192 * gib}\n`,
  });
  const checked = await cli(['check', '--root', enough, path], { native: services });
  assert.equal(checked.code, 0, checked.stdout);

  const flat = join(folder, 'flat.tar');
  const { code, stderr } = await cli(['flatten', '--quiet', delta, '-o', flat], {
    native: services,
  });
  assert.equal(code, 0, stderr);
  await assertWhole(flat);
  assert.equal((await readContents(flat, walk)).manifest?.parent, null);
});

test('pages files of 300 GiB in an archive are counted without being read', async (t) => {
  const { files, manifest } = largeManifest();
  const stored = [first + second + 8192, third + 4096];
  manifest.files = manifest.files.map((file) => ({
    ...file,
    size: stored[names.indexOf(file.name as (typeof names)[number])] ?? file.size,
  }));
  files['checkpoint/kfd-manifest.json'] = encodeManifest(manifest);
  const path = join(await temporaryFolder(t), 'job.tar');
  const small = Object.entries(files).flatMap(([name, data]) =>
    names.some((one) => name.endsWith(one)) ? [] : [{ name, data: Buffer.from(data) }],
  );
  const handle = await open(path, 'w');
  let at = 0;
  const add = async (bytes: Buffer, room: number) => {
    await handle.write(bytes, 0, bytes.length, at);
    at += bytes.length + room;
  };
  for (const [i, name] of names.entries()) {
    const size = stored[i] ?? 0;
    const entry = { name: `checkpoint/${name}`, size };
    await add(rawTar([entry]).subarray(0, 512), size);
  }
  await add(rawTar(small), 0);
  await handle.close();

  const { sizes: found, imageFiles } = await readContents(path, walk);
  assert.equal(found.gpuPages, total + 8192 + 4096);
  assert.deepEqual(
    names.map((name) => imageFiles.get(name)),
    stored,
  );
  const shown = await cli(['inspect', path], { native: services });
  assert.match(shown.stdout, / sealed +300\.0 GiB$/m);
});
